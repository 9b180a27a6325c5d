"""Measures: what they are called, how they are shown, and how a run tells them."""

from understudy.measures.known import MEASURES as MEASURES
from understudy.measures.lookup import BY_CLIENTS as BY_CLIENTS
from understudy.measures.lookup import BY_CLIENTS_IN_TRAINING as BY_CLIENTS_IN_TRAINING
from understudy.measures.lookup import EVALUATED as EVALUATED
from understudy.measures.lookup import MAIN_METRICS as MAIN_METRICS
from understudy.measures.lookup import evaluated_rounds as evaluated_rounds
from understudy.measures.lookup import is_metric as is_metric
from understudy.measures.lookup import lower_is_better as lower_is_better
from understudy.measures.lookup import main_metric as main_metric
from understudy.measures.lookup import measure as measure
from understudy.measures.measure import Counts as Counts
from understudy.measures.measure import Measure as Measure
from understudy.measures.measure import span as span
from understudy.measures.run_numbers import RunNumbers as RunNumbers
