"""Reads, merges and follows runs on disk (`folder` says what a run's folder holds).

A lane is one algorithm, pattern, grid point and seed. A run is in shards where several processes
run different lanes, on machines with one disk or several. Until it is merged, the folder of such a
run also holds

* ``lanes.json``: which lane belongs to which shard;
* ``claims/``: a file for every shard and lane that some process holds (`storage.file_locks`);
* ``failures/<lane>.txt``: the traceback of a lane that failed.
"""

from fedjax_links.results.runs import Results as Results
from fedjax_links.runs.belonging import check_same_programs as check_same_programs
from fedjax_links.runs.divisions import RunDivision as RunDivision
from fedjax_links.runs.divisions import check_division as check_division
from fedjax_links.runs.divisions import failure_file as failure_file
from fedjax_links.runs.divisions import lane_lock as lane_lock
from fedjax_links.runs.divisions import read_division as read_division
from fedjax_links.runs.divisions import rounds_of_lane as rounds_of_lane
from fedjax_links.runs.divisions import shard_lock as shard_lock
from fedjax_links.runs.divisions import write_division as write_division
from fedjax_links.runs.folder import CHECKPOINTS as CHECKPOINTS
from fedjax_links.runs.folder import CONFIG as CONFIG
from fedjax_links.runs.folder import ENVIRONMENT as ENVIRONMENT
from fedjax_links.runs.folder import EXPERIMENT as EXPERIMENT
from fedjax_links.runs.folder import FINGERPRINT as FINGERPRINT
from fedjax_links.runs.folder import IDENTITY as IDENTITY
from fedjax_links.runs.folder import LINKS as LINKS
from fedjax_links.runs.folder import LOCK as LOCK
from fedjax_links.runs.folder import MAY_DIFFER as MAY_DIFFER
from fedjax_links.runs.folder import METRICS as METRICS
from fedjax_links.runs.folder import ON_A_MESH as ON_A_MESH
from fedjax_links.runs.folder import LaneRecord as LaneRecord
from fedjax_links.runs.folder import as_column as as_column
from fedjax_links.runs.folder import as_columns as as_columns
from fedjax_links.runs.folder import as_json as as_json
from fedjax_links.runs.folder import checkpoint_file as checkpoint_file
from fedjax_links.runs.folder import first_difference as first_difference
from fedjax_links.runs.folder import lane_of as lane_of
from fedjax_links.runs.folder import lanes as lanes
from fedjax_links.runs.folder import line_of as line_of
from fedjax_links.runs.folder import order as order
from fedjax_links.runs.folder import read as read
from fedjax_links.runs.folder import read_description as read_description
from fedjax_links.runs.folder import read_json as read_json
from fedjax_links.runs.folder import row_of as row_of
from fedjax_links.runs.folder import saves as saves
from fedjax_links.runs.merging import check_kinds as check_kinds
from fedjax_links.runs.merging import merge as merge
from fedjax_links.runs.models import model as model
from fedjax_links.runs.progress import ShardStatus as ShardStatus
from fedjax_links.runs.progress import Status as Status
from fedjax_links.runs.progress import status as status
from fedjax_links.runs.recorded_links import RecordedLinks as RecordedLinks
from fedjax_links.runs.recorded_links import links as links
from fedjax_links.runs.recorded_links import read_links as read_links
from fedjax_links.runs.recorded_links import unpacked as unpacked
from fedjax_links.storage.run_files import CLAIMS as CLAIMS
from fedjax_links.storage.run_files import FAILURES as FAILURES
from fedjax_links.storage.run_files import LANES as LANES

# What users call.
__all__ = [
    'RecordedLinks',
    'Status',
    'links',
    'merge',
    'model',
    'read',
    'status',
]
