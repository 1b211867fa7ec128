-- Partition the registry's tables by conversation, or change the number of partitions:
--   psql -v ON_ERROR_STOP=1 -f partitions.sql
-- The tables must exist. Know before:
-- * If it ends with "canceling statement due to lock timeout", nothing has changed: run it again.
-- * It needs the disk space of the tables once more, until the commit.
-- * The new tables belong to the role that runs it: repeat grants and publications.
-- * If the tables are not in the role's first schema, set search_path before it.
-- * Tables that a later revision adds are not partitioned: run it again with another number.
begin;
-- shorter than the server looks for deadlocks: if anybody is to give way, it is this script
set local lock_timeout = '500ms';
lock alfred_refs_activity, alfred_refs_call, alfred_refs_change, alfred_refs_conversation, alfred_refs_counter, alfred_refs_draft, alfred_refs_mapping, alfred_refs_step in access exclusive mode;
create schema if not exists alfred_refs_partitions;

do $$
declare
    partitions constant int := 16;
    was text;
    index record;
begin
    foreach was in array array[
        'alfred_refs_activity', 'alfred_refs_call', 'alfred_refs_change',
        'alfred_refs_conversation', 'alfred_refs_counter', 'alfred_refs_draft',
        'alfred_refs_mapping', 'alfred_refs_step'
    ] loop
        execute format('create table %1$s_new (like %1$s including all)'
                       ' partition by hash (conversation)', was);
        execute format('comment on table %s_new is %L', was, obj_description(was::regclass));
        for n in 0 .. partitions - 1 loop
            execute format('create table alfred_refs_partitions.%1$s_%2$s_%3$s partition of %1$s_new'
                           ' for values with (modulus %2$s, remainder %3$s)', was, partitions, n);
        end loop;
        execute format('insert into %1$s_new select * from %1$s', was);

        -- "including all" copies indexes, and names them anew
        for index in
            with indexes as (
                select indexrelid::regclass::text as name, indrelid, indisunique, indisprimary,
                    regexp_replace(pg_get_indexdef(indexrelid), '^.*? USING ', '') as definition
                from pg_index
            )
            select before.name as old, after.name as new
            from indexes before join indexes after using (indisunique, indisprimary, definition)
            where before.indrelid = was::regclass and after.indrelid = (was || '_new')::regclass
        loop
            execute format('alter index %1$s rename to %1$s_old', index.old);
            execute format('alter index %s rename to %s', index.new, index.old);
        end loop;

        execute format('drop table %s', was);
        execute format('alter table %1$s_new rename to %1$s', was);
    end loop;
end $$;
commit;
analyze alfred_refs_activity, alfred_refs_call, alfred_refs_change, alfred_refs_conversation, alfred_refs_counter, alfred_refs_draft, alfred_refs_mapping, alfred_refs_step;
