"""A local web page that shows runs: what runs, who comes, who stands in for whom."""
