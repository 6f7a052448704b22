"""Callbacks for training frameworks, each in a module that imports its framework: `memreel.integrations.transformers`,
`memreel.integrations.lightning` and `memreel.integrations.jax`."""
