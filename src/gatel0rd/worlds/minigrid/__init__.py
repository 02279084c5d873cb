"""MiniGrid (Sec. 6.4)."""
