"""Guard models as baselines: one call, in the layout and the answer format that each model was published with."""
