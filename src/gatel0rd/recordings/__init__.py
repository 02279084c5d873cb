"""People's own data: readers, a fit, events."""
