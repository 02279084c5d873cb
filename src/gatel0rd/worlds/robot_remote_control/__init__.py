"""Robot Remote Control (Sec. 6.2)."""
