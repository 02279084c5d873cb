"""Ratios against peers, measured in one run on the same machine. Run with ``make bench``."""
