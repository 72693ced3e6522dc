"""Experiments over a data set: activations by name, interventions, attribution, probes, circuits.

    from jumok import experiment as ex

    model = jumok.load("runs/numbers")
    data = ex.read(model, [("세 시", "3시"), ("네 시", "4시")])
    drop = ex.ablate(model, data, ex.mean_log_probability, ex.heads(model))  # (heads, rows)

docs/experiments.md lists the points of a model, with their shapes. The names of `__all__` are
imported on first access.
"""

from typing import TYPE_CHECKING

from jumok.lazy import lazy_names

if TYPE_CHECKING:
    from jumok.experiment.attribution import (
        integrated_gradients,
        logit_attribution,
        logit_lens,
        rollout,
    )
    from jumok.experiment.circuit_trace import trace_circuit
    from jumok.experiment.circuits import Circuit, Node, circuit
    from jumok.experiment.inputs import Batch, Data, Subject, points, read
    from jumok.experiment.interventions import (
        Site,
        ablate,
        attribution_patch,
        heads,
        measure,
        patch,
        path_patch,
    )
    from jumok.experiment.metrics import logit_difference, mean_log_probability
    from jumok.experiment.probes import Probe, head_similarity, probe
    from jumok.experiment.recording import Activations, activations
    from jumok.experiment.transcoders import Fit, Transcoder, Transcoders, train_transcoders

__all__ = [
    "Activations",
    "Batch",
    "Circuit",
    "Data",
    "Fit",
    "Node",
    "Probe",
    "Site",
    "Subject",
    "Transcoder",
    "Transcoders",
    "ablate",
    "activations",
    "attribution_patch",
    "circuit",
    "head_similarity",
    "heads",
    "integrated_gradients",
    "logit_attribution",
    "logit_difference",
    "logit_lens",
    "mean_log_probability",
    "measure",
    "patch",
    "path_patch",
    "points",
    "probe",
    "read",
    "rollout",
    "trace_circuit",
    "train_transcoders",
]

__getattr__, __dir__ = lazy_names(__name__)
