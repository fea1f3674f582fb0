"""Configuration options: each declared once, with key, type, default and description, in the module of its subject.

The reference page and the validation come from these declarations. Key names are Flink's
where the thing is the same. `spark.*` keys are handed to Spark as they are. All are imported from here, so that whoever
knows one option knows all keys.
"""

from firesteel.model.configuration import *
from firesteel.model.options.cluster import *
from firesteel.model.options.ha import *
from firesteel.model.options.history import *
from firesteel.model.options.jobmaster import *
from firesteel.model.options.jobs import *
from firesteel.model.options.logs import *
from firesteel.model.options.metrics import *
from firesteel.model.options.notifications import *
from firesteel.model.options.pipelines import *
from firesteel.model.options.registration import *
from firesteel.model.options.rest import *
from firesteel.model.options.restarts import *
from firesteel.model.options.rpc import *
from firesteel.model.options.spark import *
from firesteel.model.options.storage import *
from firesteel.model.options.streams import *
from firesteel.model.options.taskexecutor import *
