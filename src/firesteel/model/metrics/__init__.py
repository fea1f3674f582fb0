"""Metrics: each declared once, with scope, name, unit and meaning, in the module of its subject.

The reference page, REST and the exposition for Prometheus come from these declarations. Names are Flink's where the
thing is the same. All are imported from here, so that whoever knows one knows all.
"""

from firesteel.model.metric import *
from firesteel.model.metrics.cluster import *
from firesteel.model.metrics.jobs import *
from firesteel.model.metrics.processes import *
from firesteel.model.metrics.streams import *
from firesteel.model.metrics.workers import *
