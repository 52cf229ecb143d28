"""The stages as Kubeflow components: wiring only. README.md has the table."""
