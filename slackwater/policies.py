"""The names of the policies, for the command line; `controller.policies` holds their rules."""

NO_POLICY = "none"
"""What a run is told whose merges nobody commands; the run log then names no policy."""

CONTROL = "random:"
"""The arm `random:POLICY` is the control of POLICY: as many merges at steps drawn uniformly."""

POLICY_NAMES = (
    "fixed_h",
    "adaptive_tokens",
    "adaptive_load",
    "pressure_gate",
    "random_deferral",
    "wa_diloco",
    "wa_forecast",
    "wa_forecast_causal",
    "slack",
    "slack_markov",
    "slack_seasonal",
)
