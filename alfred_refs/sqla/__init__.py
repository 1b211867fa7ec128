"""SQLAlchemy's internals: its private names are used in this package only.

    key, parameters = sqla.cache_key_of(statement)          # the cache key, its bind parameters
    copy = sqla.with_values(statement, {parameters[0].key: value})      # the same cache key
    sqla.rewrite_rows(session.execute(copy), rewrite)       # each chunk, before the program has it

| module | what is in it |
| --- | --- |
| `statements` | clauses, bind parameters and cache keys; copies with other values |
| `results` | rows, and the information about a write, passed through a function |
| `mappers` | mappers, instance states, the unit of work |
| `sessions` | `HookedSession`; the identity map, ORM executions, flushes, transactions |
| `engines` | pools, error events, schema translation |
| `compiler` | an owner's criteria, added to each statement that a connection compiles |
| `concurrency` | blocking code under asyncio |

A comment with each private name explains it, and names the test that pins it on both supported
series; `tests/sqla/test_privates.py` checks that no other module uses one.
"""

from .compiler import (
    WriteCheck as WriteCheck,
    confined_dialect as confined_dialect,
    criterion_alias as criterion_alias,
    set_dialect as set_dialect,
)
from .concurrency import (
    AsyncFacade as AsyncFacade,
    async_list_method as async_list_method,
    async_method as async_method,
    can_wait as can_wait,
    in_greenlet as in_greenlet,
    wait_for as wait_for,
)
from .engines import (
    Schemas as Schemas,
    as_sqlalchemy_errors as as_sqlalchemy_errors,
    caches_statements as caches_statements,
    connection_cache as connection_cache,
    driver_error_fields as driver_error_fields,
    invalidate_pool as invalidate_pool,
    max_connections as max_connections,
    on_disposal as on_disposal,
    parallel_pool as parallel_pool,
    pings as pings,
    prepend_error_listener as prepend_error_listener,
    root_of as root_of,
    schemas_in as schemas_in,
    schemas_of as schemas_of,
    schemas_of_session as schemas_of_session,
    simple_query as simple_query,
)
from .mappers import (
    BOUNDARY as BOUNDARY,
    STATE as STATE,
    State as State,
    added_states as added_states,
    association_class as association_class,
    attributes_of as attributes_of,
    class_cache as class_cache,
    classes_at_path as classes_at_path,
    columns_by_getter as columns_by_getter,
    columns_of_keys as columns_of_keys,
    committed_values as committed_values,
    deannotated_table as deannotated_table,
    equalities_in as equalities_in,
    flushed_states as flushed_states,
    is_association as is_association,
    is_from_text as is_from_text,
    is_instance as is_instance,
    is_type_bound as is_type_bound,
    is_unpopulated as is_unpopulated,
    keeps_unpopulated as keeps_unpopulated,
    mapper_of_table as mapper_of_table,
    mappers as mappers,
    mappers_of as mappers_of,
    names_of_attributes as names_of_attributes,
    new_collection as new_collection,
    orphans_of as orphans_of,
    populated_attributes as populated_attributes,
    related_states as related_states,
    replace_value as replace_value,
    reverse_of as reverse_of,
    save_in_order as save_in_order,
    set_default as set_default,
    set_related as set_related,
    state_of as state_of,
    states_in_cycle as states_in_cycle,
    tables as tables,
    underlying_table as underlying_table,
)
from .results import (
    Rows as Rows,
    column_origins as column_origins,
    cursor_result_of as cursor_result_of,
    is_chunked as is_chunked,
    read_inserted_keys as read_inserted_keys,
    returned_identities as returned_identities,
    rewrite_rows as rewrite_rows,
    rewrite_write_info as rewrite_write_info,
    row_like as row_like,
)
from .sessions import (
    HookedSession as HookedSession,
    WeakInstance as WeakInstance,
    autocommits as autocommits,
    autoflush as autoflush,
    drop_loader_yield_per as drop_loader_yield_per,
    invoke_statement as invoke_statement,
    is_aborted as is_aborted,
    is_flushing as is_flushing,
    is_in_default as is_in_default,
    is_in_flush as is_in_flush,
    is_in_load as is_in_load,
    is_intact as is_intact,
    is_internal_load as is_internal_load,
    is_option_set as is_option_set,
    is_own_connection as is_own_connection,
    portable_texts as portable_texts,
    replace_flush_error as replace_flush_error,
    unconfined_lookup as unconfined_lookup,
    watch_adding as watch_adding,
    watch_loading as watch_loading,
)
from .statements import (
    LateKey as LateKey,
    WeakCacheKey as WeakCacheKey,
    all_in_where as all_in_where,
    anonymous_stem as anonymous_stem,
    bundle_of as bundle_of,
    cache_key_of as cache_key_of,
    check_parameters as check_parameters,
    conflict_values_of as conflict_values_of,
    distinct_on as distinct_on,
    elements_of as elements_of,
    expressions_by_position as expressions_by_position,
    from_select_pairs as from_select_pairs,
    has_lambdas as has_lambdas,
    in_keys as in_keys,
    info_of as info_of,
    instance_attribute_of as instance_attribute_of,
    is_false as is_false,
    is_key_parameter as is_key_parameter,
    is_opaque as is_opaque,
    is_unnamed as is_unnamed,
    key_parameter as key_parameter,
    literal_parameter as literal_parameter,
    many_values_of as many_values_of,
    may_set_anonymous as may_set_anonymous,
    opaque_parts as opaque_parts,
    options_of as options_of,
    ordered_aggregate as ordered_aggregate,
    parameter_value as parameter_value,
    params_of as params_of,
    polymorphic_column as polymorphic_column,
    query_expressions as query_expressions,
    result_expressions as result_expressions,
    takes_list as takes_list,
    unreachable_parameters as unreachable_parameters,
    unreachable_parts as unreachable_parts,
    update_on_conflict as update_on_conflict,
    values_of as values_of,
    with_compile_options as with_compile_options,
    with_conflict_values as with_conflict_values,
    with_many_values as with_many_values,
    with_params as with_params,
    with_value as with_value,
    with_values as with_values,
    with_values_in_where as with_values_in_where,
    without_lambdas as without_lambdas,
    write_target as write_target,
)
