"""A local page to look into world models: their predictions, latents and gates, and live driving."""

from gatel0rd.explore.app import make_app, save_page, serve

__all__ = ["make_app", "save_page", "serve"]
