"""The runs that measure greenroom, each in a process of its own."""
