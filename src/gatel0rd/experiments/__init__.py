"""The paper's questions as data, and the machinery that runs and reports them."""
