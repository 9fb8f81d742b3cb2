"""Figures of greenroom beside those of its peers: `python -m benchmarks [NAME ...]`.

See docs/benchmarks.md for what each one measures and how.
"""
