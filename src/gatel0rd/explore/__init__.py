"""A local page to look into world models: their predictions, latent states and gates, and live worlds to drive."""

from gatel0rd.explore.app import make_app
from gatel0rd.explore.assets import save_page
from gatel0rd.explore.server import serve

__all__ = ["make_app", "save_page", "serve"]
