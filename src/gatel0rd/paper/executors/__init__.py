"""Who does the work of many runs."""
