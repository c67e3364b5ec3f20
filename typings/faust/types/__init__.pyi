from faust.types.events import EventT as EventT
from faust.types.tuples import TP as TP
from faust.types.tuples import ConsumerMessage as ConsumerMessage
