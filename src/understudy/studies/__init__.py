"""Studies: a grid of simulations, run, resumed, compared and told."""
