"""The reproduction: plans, runs, records, claims, report."""
