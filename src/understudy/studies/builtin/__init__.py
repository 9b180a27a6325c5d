"""Studies that come with the package: the papers' experiments, and a first comparison."""
