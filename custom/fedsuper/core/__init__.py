"""Pure torch: state-dict algebra, aggregation rules and the super model. No nvflare, no monai, no files."""
