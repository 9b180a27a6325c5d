"""Keys of records, the same for server and client."""

from __future__ import annotations

from understudy.measures import BY_CLIENTS as BY_CLIENTS
from understudy.measures import BY_CLIENTS_IN_TRAINING as BY_CLIENTS_IN_TRAINING

# ConfigRecord, server to client. The first and `proximal-mu` are spelt as Flower spells them.
ROUND = "server-round"  # 1, 2, …; our t is one less
LR = "lr"
EPOCHS = "local-epochs"
STEPS = "local-steps"
BATCH_SIZE = "batch-size"
MOMENTUM = "momentum"
WEIGHT_DECAY = "weight-decay"
OPTIMIZER = "optimizer"  # not sent for plain SGD
OPTIMIZER_OPTIONS = "optimizer-options"  # JSON
MU = "proximal-mu"
SEED = "seed"
CLIENT_NUMBER = "client-number"  # 0 .. N-1: with the seed and the round, the address of batches
INTRODUCE = "understudy-introduce"  # "only introduce yourself"

# ArrayRecord, server to client: what SCAFFOLD adds to each gradient
CORRECTION = "correction"

# ConfigRecord, client to server
REPORT = "understudy"
CLIENT_ID = "client-id"
LABEL_COUNTS = "label-counts"
N_STEPS = "num-steps"

# a SuperNode's --node-config
PARTITION_ID = "partition-id"

N_EXAMPLES = "num-examples"  # metric, as in Flower's FedAvg
LOSS = "train_loss"  # metric, as in Flower's templates

# How a name in the round's log begins says who measured it. What clients report has prefixes of its
# own (BY_CLIENTS: their evaluation), so that no name of theirs is taken for a measure of the run.
BY_SERVER = "test_"  # `evaluate_fn`
