"""Figures, tables and pages, made from records alone."""
