-- Questions about the kitchen, as a model answers them in SQL.

-- How many recipes are there?
select count(*) from recipes;

-- Which recipes take less than half an hour in all?
select name, coalesce(prep_minutes, 0) + coalesce(cook_minutes, 0) as total from recipes where coalesce(prep_minutes, 0) + coalesce(cook_minutes, 0) < 30 order by total, name;

-- Top five ingredients by the number of recipes that use them.
select i.name, count(distinct ri.recipe_id) as recipes from recipe_ingredients ri join ingredients i on i.id = ri.ingredient_id group by i.id, i.name order by recipes desc, i.name limit 5;

-- Top five ingredients of what is planned this month, with the change against last month.
with used as (select date_trunc('month', mp.date)::date as month, ri.ingredient_id, count(*) as times from meal_plans mp join recipe_ingredients ri on ri.recipe_id = mp.recipe_id where ri.ingredient_id is not null group by 1, 2) select i.name, u.times, u.times - coalesce(p.times, 0) as change from used u join ingredients i on i.id = u.ingredient_id left join used p on p.ingredient_id = u.ingredient_id and p.month = (u.month - interval '1 month')::date where u.month = (select max(month) from used) order by u.times desc, i.name limit 5;

-- Recipes by cuisine, the most first.
select coalesce(cuisine, 'none') as cuisine, count(*) as n from recipes group by 1 order by n desc, 1;

-- Cuisines with more than three recipes, and their mean time.
select cuisine, count(*), round(avg(prep_minutes + cook_minutes), 1) as mean from recipes where cuisine is not null group by cuisine having count(*) > 3 order by 2 desc, 1;

-- Which recipes have never been planned?
select r.name from recipes r where not exists (select 1 from meal_plans m where m.recipe_id = r.id) order by r.name;

-- Which recipe is planned most often?
select r.id, r.name, count(*) as times from meal_plans m join recipes r on r.id = m.recipe_id group by r.id, r.name order by times desc, r.name limit 1;

-- Meals by day of the week.
select extract(isodow from date) as weekday, count(*) from meal_plans group by 1 order by 1;

-- Meals by weekday by name.
select trim(to_char(date, 'Day')) as weekday, count(*) as meals from meal_plans group by trim(to_char(date, 'Day')), extract(isodow from date) order by extract(isodow from date);

-- What is planned in the week after a day?
select m.date, m.meal_type, r.name from meal_plans m left join recipes r on r.id = m.recipe_id where m.date >= '2026-01-01' and m.date < date '2026-01-01' + interval '7 days' order by m.date, m.meal_type;

-- Days between a meal and the next of the same recipe.
select r.name, m.date, lead(m.date) over (partition by m.recipe_id order by m.date) - m.date as days from meal_plans m join recipes r on r.id = m.recipe_id order by r.name, m.date;

-- The quickest recipe of each cuisine.
select distinct on (cuisine) cuisine, name, prep_minutes + cook_minutes as minutes from recipes where cuisine is not null and prep_minutes + cook_minutes is not null order by cuisine, minutes, name;

-- Rank recipes by their number of ingredients within each cuisine.
select r.cuisine, r.name, count(ri.id) as n, rank() over (partition by r.cuisine order by count(ri.id) desc) as place from recipes r left join recipe_ingredients ri on ri.recipe_id = r.id group by r.id, r.cuisine, r.name order by r.cuisine, place, r.name;

-- Recipes with more ingredients than the average recipe.
with n as (select recipe_id, count(*) as n from recipe_ingredients group by recipe_id) select r.name, n.n from n join recipes r on r.id = n.recipe_id where n.n > (select avg(n) from n) order by n.n desc, r.name;

-- Share of recipes by cuisine in per cent.
select cuisine, round(100.0 * count(*) / sum(count(*)) over (), 1) as share from recipes group by cuisine order by share desc, cuisine;

-- What is still to be bought, by ingredient category?
select coalesce(i.category, 'other') as category, string_agg(s.name, ', ' order by s.name) as items from shopping_list s left join ingredients i on i.id = s.ingredient_id where not s.bought group by 1 order by 1;

-- How many items are bought and how many not?
select count(*) filter (where bought) as bought, count(*) filter (where not bought) as open from shopping_list;

-- Ingredients of planned meals that are not on the shopping list.
select distinct i.name from meal_plans m join recipe_ingredients ri on ri.recipe_id = m.recipe_id join ingredients i on i.id = ri.ingredient_id left join shopping_list s on s.ingredient_id = i.id where s.id is null order by i.name;

-- Variants of each recipe.
select p.name as original, array_agg(v.id order by v.name) as variants from recipes p join recipes v on v.parent_recipe_id = p.id group by p.id, p.name order by p.name;

-- The whole family of recipes, with their depth.
with recursive family as (select id, name, parent_recipe_id, 0 as depth from recipes where parent_recipe_id is null union all select r.id, r.name, r.parent_recipe_id, f.depth + 1 from recipes r join family f on r.parent_recipe_id = f.id) select depth, count(*) from family group by depth order by depth;

-- Recipes that are tagged quick or vegetarian.
select name, tags from recipes where tags && array['quick', 'vegetarian'] order by name;

-- How often is each tag used?
select unnest(tags) as tag, count(*) from recipes group by 1 order by 2 desc, 1 limit 10;

-- Recipes without any tag.
select name from recipes where cardinality(tags) = 0 order by name;

-- Recipes that use both onion and garlic.
select r.name from recipes r where r.id in (select recipe_id from recipe_ingredients where name ilike '%onion%') and r.id in (select recipe_id from recipe_ingredients where name ilike '%garlic%') order by r.name;

-- Recipes with onion and without garlic.
select distinct r.name from recipes r join recipe_ingredients a on a.recipe_id = r.id and a.name ilike '%onion%' where r.id not in (select recipe_id from recipe_ingredients where name ilike '%garlic%') order by 1;

-- Recipes by length of time: quick, normal, long.
select case when prep_minutes + cook_minutes <= 20 then 'quick' when prep_minutes + cook_minutes <= 60 then 'normal' when prep_minutes + cook_minutes is null then 'unknown' else 'long' end as kind, count(*) from recipes group by kind order by count(*) desc, kind;

-- Median time to cook by cuisine.
select cuisine, percentile_cont(0.5) within group (order by cook_minutes) as median from recipes where cook_minutes is not null group by cuisine order by cuisine;

-- The longest steps of instructions: how many steps has each recipe?
select name, array_length(instructions, 1) as steps from recipes where array_length(instructions, 1) > 5 order by steps desc, name;

-- The first step of each recipe.
select name, left(instructions[1], 40) as first_step from recipes where cardinality(instructions) > 0 order by name limit 20;

-- Ingredients that occur under several names in recipes.
select i.name, count(distinct lower(ri.name)) as names from recipe_ingredients ri join ingredients i on i.id = ri.ingredient_id group by i.id, i.name having count(distinct lower(ri.name)) > 1 order by names desc, i.name;

-- Ingredient lines that are of no ingredient of the catalogue.
select r.name, ri.name as line from recipe_ingredients ri join recipes r on r.id = ri.recipe_id where ri.ingredient_id is null order by r.name, ri.position;

-- Are the staples in the shopping list?
select s.name from shopping_list s join preferences p on s.ingredient_id = any(p.assumed_staples) order by s.name;

-- The household's settings.
select settings ->> 'household' as household, settings from preferences;

-- Meals per month, with a running total.
select to_char(date, 'YYYY-MM') as month, count(*) as meals, sum(count(*)) over (order by to_char(date, 'YYYY-MM')) as total from meal_plans group by to_char(date, 'YYYY-MM') order by month;

-- Breakfasts, lunches and dinners in columns.
select date, max(case when meal_type = 'lunch' then r.name end) as lunch, max(case when meal_type = 'dinner' then r.name end) as dinner from meal_plans m left join recipes r on r.id = m.recipe_id group by date order by date;

-- Words of names: recipes whose name begins with the name of their cuisine.
select name, cuisine from recipes where lower(name) like lower(cuisine) || '%' order by name;

-- Pairs of recipes that share at least four ingredients.
select a.name as one, b.name as other, count(*) as shared from recipe_ingredients x join recipe_ingredients y on x.ingredient_id = y.ingredient_id and x.recipe_id < y.recipe_id join recipes a on a.id = x.recipe_id join recipes b on b.id = y.recipe_id group by a.id, a.name, b.id, b.name having count(*) >= 4 order by shared desc, one, other limit 10;

-- Ingredients by category, with subtotals.
select category, count(*) from ingredients group by rollup (category) order by category nulls last;

-- Ingredients that no recipe uses, by category.
select category, count(*) from ingredients i where not exists (select 1 from recipe_ingredients r where r.ingredient_id = i.id) group by category order by 2 desc, 1 limit 10;

-- All names of things: of recipes, and of what is to be bought.
select name, 'recipe' as kind from recipes union all select name, 'item' from shopping_list order by name, kind limit 30;

-- The three recipes after the first five, by name.
select name from recipes order by lower(name), name offset 5 limit 3;
