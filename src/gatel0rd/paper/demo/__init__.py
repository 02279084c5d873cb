"""The demo: two networks, trained in minutes, on one page that shows what sparse changes of a memory are good for."""
