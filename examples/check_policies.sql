-- Find tables that row-level security does not protect: run this as the application's role, with
-- the owned tables in the array. Each row is a fault.
with owned as (select unnest(array['recipes', 'lines', 'plans'])::regclass as id)
select format('%s: row-level security is not enabled', relname) as fault
from pg_class join owned on owned.id = oid where not relrowsecurity
union all
select format('%s: its owner is this role, or one that it may become', relname)
from pg_class join owned on owned.id = oid where pg_has_role(relowner, 'usage')
union all
select format('%s: there is no policy', relname)
from pg_class join owned on owned.id = oid
where not exists (select from pg_policy where polrelid = id)
union all
select format('role %s is a superuser, or has BYPASSRLS', rolname)
from pg_roles where rolname = current_user and (rolsuper or rolbypassrls);
