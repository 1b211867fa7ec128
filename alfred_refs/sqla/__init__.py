"""The one door to SQLAlchemy's internals: what has no public name there is used here only.

    shape, parameters = sqla.shape_of(statement)            # the cache key, and its values
    copy = sqla.with_values(statement, {parameters[0].key: key})
    sqla.rewrite_rows(session.execute(copy), with_refs)     # each chunk, before the program

Each function says which behaviour it leans on; `tests/sqla` pins that on both supported series,
and `tests/sqla/test_privates.py` sees to it that no other module leans on any.
"""

from .awaiting import Awaited as Awaited, awaited as awaited, listed as listed
from .cache_keys import WeakShape as WeakShape
from .clauses import (
    among as among,
    bundle_of as bundle_of,
    conflict_values_of as conflict_values_of,
    distinct_on as distinct_on,
    elements_of as elements_of,
    expressions_of as expressions_of,
    has_lambdas as has_lambdas,
    hidden_in as hidden_in,
    is_false as is_false,
    is_opaque as is_opaque,
    is_unnamed as is_unnamed,
    many_values_of as many_values_of,
    options_of as options_of,
    ordered_aggregate as ordered_aggregate,
    out_of_reach as out_of_reach,
    params_of as params_of,
    places_of as places_of,
    records_of as records_of,
    returned_by as returned_by,
    selected_from_union as selected_from_union,
    selected_into as selected_into,
    shape_of as shape_of,
    unlisted as unlisted,
    update_on_conflict as update_on_conflict,
    values_of as values_of,
    written_by as written_by,
)
from .copies import (
    not_replaced as not_replaced,
    stand_in_where as stand_in_where,
    with_conflict_values as with_conflict_values,
    with_many_values as with_many_values,
    with_params as with_params,
    with_value as with_value,
    with_values as with_values,
    with_values_in_where as with_values_in_where,
    without_lambdas as without_lambdas,
)
from .defaults import put_default as put_default
from .dialects import (
    Check as Check,
    confined_dialect as confined_dialect,
    put_dialect as put_dialect,
)
from .engines import (
    Schemas as Schemas,
    can_wait as can_wait,
    connections_of as connections_of,
    invalidate_pool as invalidate_pool,
    kept_with_connection as kept_with_connection,
    listen_first as listen_first,
    on_disposal as on_disposal,
    pool_beside as pool_beside,
    root_of as root_of,
    said as said,
    schemas_in as schemas_in,
    schemas_of as schemas_of,
    schemas_of_session as schemas_of_session,
    wait_for as wait_for,
)
from .flushes import save_in_order as save_in_order, states_in_circle as states_in_circle
from .froms import settled as settled
from .loaded_columns import (
    attributes_filled as attributes_filled,
    loads_by_text as loads_by_text,
    names_filled as names_filled,
)
from .mappers import (
    BOUNDARY as BOUNDARY,
    STATE as STATE,
    State as State,
    added_to as added_to,
    attributes_of as attributes_of,
    classes_called as classes_called,
    columns_by_getter as columns_by_getter,
    columns_of_keys as columns_of_keys,
    flushed_states as flushed_states,
    is_instance as is_instance,
    is_type_bound as is_type_bound,
    is_unpopulated as is_unpopulated,
    kept_with as kept_with,
    loaded_before as loaded_before,
    mapper_of_table as mapper_of_table,
    mappers as mappers,
    mappers_of as mappers_of,
    new_collection as new_collection,
    orphaned_by as orphaned_by,
    pairs_in as pairs_in,
    plain as plain,
    put_related as put_related,
    related_to as related_to,
    reverse_of as reverse_of,
    state_of as state_of,
    table_behind as table_behind,
    tables as tables,
)
from .parameters import (
    LateKey as LateKey,
    attribute_behind as attribute_behind,
    check_parameters as check_parameters,
    is_key_parameter as is_key_parameter,
    key_parameter as key_parameter,
    may_be_named as may_be_named,
    parameter_value as parameter_value,
    stem_of as stem_of,
    takes_list as takes_list,
)
from .results import (
    Rows as Rows,
    cover_exits as cover_exits,
    cursor_result_of as cursor_result_of,
    new_primary_keys as new_primary_keys,
    origins_of as origins_of,
    rewrite_rows as rewrite_rows,
    row_like as row_like,
    yields_chunks as yields_chunks,
)
from .sessions import (
    HookedSession as HookedSession,
    See as See,
    There as There,
    Translating as Translating,
    asks as asks,
    autocommits as autocommits,
    autoflush as autoflush,
    invoked as invoked,
    is_aborted as is_aborted,
    is_flushing as is_flushing,
    is_own_connection as is_own_connection,
    lifted as lifted,
    load_whole as load_whole,
    loads_by_itself as loads_by_itself,
    replace_flush_error as replace_flush_error,
    watch_adding as watch_adding,
    watch_loading as watch_loading,
)
