"""Benchmarks: what Handrail costs beside a hand-written floor and three agent libraries.

Run with `python -m benchmarks` (or `make bench`) from the root of the repository.
"""
