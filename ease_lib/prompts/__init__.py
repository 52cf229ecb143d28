"""How rows become what is sent: template, messages, baseline, instructions."""
