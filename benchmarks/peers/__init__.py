"""The runs that measure what greenroom is compared with, each in a process of its own."""
