/*
 * The query that reads the functions of a database and their effects: see state_functions.c, which
 * takes the rows.
 *
 * The first round asks for the fingerprint only. The second round asks for all rows, together with
 * the fingerprint that they belong to. The first column of a row has its kind: 'n' names, 's'
 * sources, 'e' calls, 'h' effects of functions of PostgreSQL that objects call.
 */
#include "sql/state_functions_query.h"

#define SOURCES_SENT "4194304"		/* bytes of all sources that the server sends */
#define SOURCE_MOST "65536"		/* bytes of one source that the server sends */

/* Sets statement_timeout to 0.5 s and search_path until the end of this Query. The first statement
   ends the client's timeout, and the third statement begins with the new timeout. The result has
   two columns, so that state_functions_row() ignores it. */
static const char bounds[] = "SELECT "
			     "pg_catalog.set_config('statement_timeout','0',true),pg_catalog.set_"
			     "config('search_path','pg_catalog,pg_temp',true);SELECT "
			     "set_config('statement_timeout','500',true),1;";
/* A timeout after the last check for interrupts of a statement ends the next statement. Here the
   next statement belongs to this Query, not to a client. */
static const char end_of_timeout[] = "SELECT set_config('statement_timeout','0',true),1;SELECT 1,1";

/* Excluded are objects of temporary schemas, and objects of PostgreSQL itself. */
#define MINE(row) row ".oid>=16384"
#define TEMPORARY \
	"(ARRAY(SELECT oid FROM pg_namespace WHERE starts_with(nspname::text,'pg_temp_')))"
#define LASTING(row) MINE(row) " AND " row ".pronamespace<>ALL" TEMPORARY
#define OF_LASTING(row, column) \
	row " JOIN pg_class c ON c.oid=" row "." column \
	    " AND c.relpersistence<>'t' AND c.oid>=16384"

static const char fingerprint[] =
	"SELECT concat(count(*),':',sum(hashtextextended(concat(k,':',o,':',x),0))) FROM ("
	"SELECT 1 AS k,p.oid AS o,p.xmin::text AS x FROM pg_proc p WHERE " LASTING("p")
	" UNION ALL SELECT 2,r.oid,r.xmin::text FROM pg_rewrite " OF_LASTING("r", "ev_class")
	" UNION ALL SELECT 3,t.oid,t.xmin::text FROM pg_trigger " OF_LASTING("t", "tgrelid")
	" AND NOT t.tgisinternal"
	" UNION ALL SELECT 4,q.oid,q.xmin::text FROM pg_policy " OF_LASTING("q", "polrelid")
	" UNION ALL SELECT 5,a.oid,a.xmin::text FROM pg_attrdef " OF_LASTING("a", "adrelid")
	" UNION ALL SELECT 6,k.oid,k.xmin::text FROM pg_constraint k WHERE "
	"(k.contype='c' OR 'd' IN (k.confdeltype,k.confupdtype)) AND "
	MINE("k") " AND k.connamespace<>ALL" TEMPORARY
	" UNION ALL SELECT 7,i.indexrelid,i.xmin::text FROM pg_index " OF_LASTING("i", "indrelid")
	" AND (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL)"
	" UNION ALL SELECT 8,o.oid,o.xmin::text FROM pg_operator o WHERE " MINE("o")
	" UNION ALL SELECT 9,s.oid,s.xmin::text FROM pg_cast s WHERE " MINE("s")
	" UNION ALL SELECT 10,y.oid,y.xmin::text FROM pg_type y WHERE " MINE("y")
	" AND y.typtype<>'c' AND y.typelem=0"
	" UNION ALL SELECT 11,e.oid,e.xmin::text FROM pg_event_trigger e"
	" UNION ALL SELECT 12,x.oid,x.xmin::text FROM pg_extension x) AS f;";

/*
 * d: functions of PostgreSQL that change the session, run SQL in a string, or read a value of the
 * session, with a flag (said_by_flags()). e: for each flag, a pattern that the tree of an
 * expression or query matches if it has such an effect. The commands 3 and 5 are INSERT and MERGE.
 */
static const char effects[] =
	"WITH d AS MATERIALIZED (SELECT p.oid,CASE WHEN p.proname='nextval' THEN 'q' WHEN "
	"p.proname='setval' THEN 'v' WHEN p.proname IN ('currval','lastval') THEN 'c' WHEN "
	"p.proname='pg_notify' THEN 'o' ELSE 'd' END AS flag FROM pg_proc p WHERE p.oid<16384 AND "
	"p.pronamespace=11 AND (p.proname IN "
	"('set_config','setseed','ts_stat','ts_rewrite','nextval','setval','currval','lastval','pg_"
	"notify','pg_backup_start','pg_start_backup') "
	"OR p.proname ~ '_to_xml' OR p.proname ~ '^pg_replication_origin_(session|xact)' OR "
	"p.proname ~ '^pg_(create|copy)_.*_replication_slot$' OR (p.proname ~ "
	"'^pg_(try_)?advisory_' AND p.proname !~ 'xact'))),e AS MATERIALIZED (SELECT "
	"flag,concat(':(?:funcid|opfuncid|aggfnoid|winfnoid) (?:',string_agg(oid::text,'|'),') ') "
	"AS pattern FROM d GROUP BY flag UNION ALL VALUES ('o','[{]NOTIFY'),('i',':commandType "
	"[35] |[{]SETTODEFAULT'),('s',concat(':relid ','pg_settings'::regclass::oid,' '))) ";
#define PATTERN "(SELECT string_agg(pattern,'|') FROM e)"
#define EFFECTS(tree) \
	"CASE WHEN (" tree ")::text ~ " PATTERN \
	" THEN (SELECT string_agg(flag,'') FROM e WHERE (" tree ")::text ~ pattern) END"

/* Extensions with known functions in C, and their functions that change the session or run SQL in a
   string. */
#define EXTENSIONS \
	"'amcheck','autoinc','bloom','btree_gin','btree_gist','citext','cube','dict_int','dict_" \
	"xsyn','earthdistance','file_fdw','fuzzystrmatch','hstore','insert_username','intagg','" \
	"intarray','isn','lo','ltree','moddatetime','pageinspect','pg_buffercache','pg_" \
	"freespacemap','pg_prewarm','pg_stat_statements','pg_trgm','pg_visibility','pg_" \
	"walinspect','pgcrypto','pgrowlocks','pgstattuple','plpgsql','postgis','postgres_fdw','" \
	"refint','seg','sslinfo','tablefunc','tcn','tsm_system_rows','tsm_system_time','unaccent'" \
	",'uuid-ossp','vector','xml2'" \
	""
#define NOT_OF_THEM \
	"'set_limit','isn_weak','check_primary_key','check_foreign_key','autoinc','triggered_" \
	"change_notification','connectby','crosstab','crosstab2','crosstab3','crosstab4','" \
	"crosstab_hash','xpath_table','plpgsql_call_handler'," \
	"'plpgsql_inline_handler','plpgsql_validator'"
#define IS_READ "l.lanname IN ('sql','plpgsql')"
#define IS_KNOWN_CODE \
	"l.lanname='c' AND p.proname NOT IN (" NOT_OF_THEM \
	") AND EXISTS (SELECT 1 FROM pg_depend b,pg_extension x WHERE b.classid=1255 AND " \
	"b.objid=p.oid " \
	"AND b.refclassid=3079 AND b.deptype='e' AND x.oid=b.refobjid AND x.extname IN " \
	"(" EXTENSIONS "))"
#define ASCII(text) \
	"CASE WHEN " text " ~ E'[^\\\\x01-\\\\x7F]' THEN regexp_replace(" text \
	",E'[^\\\\x01-\\\\x7F]','?','g') ELSE " text " END"

/* The tree of a function in SQL that PostgreSQL has parsed (BEGIN ATOMIC). */
#define TREE "(to_jsonb(s)->>'prosqlbody')"
/* Objects that refer to a function, or to a view. */
#define REFERS \
	"pg_depend b LEFT JOIN pg_rewrite r ON b.classid=2618 AND r.oid=b.objid WHERE b.classid " \
	"IN (1255,2618,2604,2606,1259,2620,3256,3466"
#define CALLER "CASE b.classid WHEN 1255 THEN b.objid WHEN 2618 THEN r.ev_class ELSE 0 END"
#define KIND \
	"CASE WHEN b.classid IN (1255,2618) THEN 'f' WHEN b.classid IN (2604,1259,2620,3466) " \
	"THEN 'w' " \
	"WHEN b.classid=2606 AND EXISTS (SELECT 1 FROM pg_constraint k WHERE k.oid=b.objid AND " \
	"k.contypid=0) THEN 'w' ELSE 'r' END"

static void append_functions_query(struct bytes *sql)
{
	/* 'n', oid, name, flags: functions, views and tables with rules */
	bytes_append_text(sql, effects);
	bytes_append_text(sql,
		"(SELECT 'n',p.oid::text," ASCII("p.proname::text") ",concat(CASE WHEN NOT ("
		IS_READ ") AND p.prokind<>'a' AND NOT (" IS_KNOWN_CODE
		") THEN 'x' END,CASE WHEN p.prokind='a' AND EXISTS (SELECT 1 FROM pg_aggregate g,d "
		"WHERE g.aggfnoid=p.oid AND d.oid IN "
		"(g.aggtransfn,g.aggfinalfn,g.aggcombinefn,g.aggserialfn,"
		"g.aggdeserialfn,g.aggmtransfn,g.aggminvtransfn,g.aggmfinalfn)) "
		""
		"THEN 'd' END," EFFECTS("p.proargdefaults") ") "
		"FROM pg_proc p JOIN pg_language l ON l.oid=p.prolang WHERE " LASTING("p") " LIMIT "
		FUNCTION_ROWS_MOST ") "
		"UNION ALL (SELECT 'n',c.oid::text," ASCII("c.relname::text") ",string_agg("
		EFFECTS("concat(r.ev_action,r.ev_qual)") ",'') "
		"FROM pg_rewrite " OF_LASTING("r", "ev_class") " GROUP BY c.oid,c.relname LIMIT "
		FUNCTION_ROWS_MOST ");");

	/* 's', oid, source, nothing. A parsed function has a tree in place of a source, with the
	   numbers of the functions that it calls. Its definition is requested if it has an effect,
	   and if the tree is not so large that PostgreSQL may fail. */
	bytes_append_text(sql, effects);
	bytes_append_text(
		sql,
		",s AS (SELECT p.*,sum(octet_length(p.prosrc)) OVER (ORDER BY p.oid) AS sent FROM "
		"pg_proc p JOIN pg_language l ON l.oid=p.prolang "
		"WHERE " LASTING("p") " AND " IS_READ " ORDER BY p.oid LIMIT "
		FUNCTION_ROWS_MOST "),"
				      "f AS (SELECT s.oid,CASE WHEN s.sent>" SOURCES_SENT
				      " OR octet_length(s.prosrc)>" SOURCE_MOST
				      " THEN NULL WHEN s.prosrc<>'' THEN s.prosrc "
				      "WHEN coalesce(" TREE " !~ " PATTERN
				      ",true) THEN ' ' WHEN octet_length(" TREE ")<=" SOURCE_MOST
				      " THEN pg_get_functiondef(s.oid) END AS src "
				      "FROM s) SELECT 's',f.oid::text," ASCII(
					      "f.src") ",'' FROM f;");

	/* 'e', caller or 0, callee, kind of caller: 'f' a function or view, 'w' an object that
	   writes use, 'r' an object that reads use. 'h', nothing, flags, 'w' or 'r': the effects of
	   functions of PostgreSQL that such objects call. */
	bytes_append_text(sql, effects);
	bytes_append_text(
		sql,
		"(SELECT DISTINCT 'e',(" CALLER ")::text,b.refobjid::text," KIND " FROM " REFERS
		") AND b.refclassid=1255 AND b.refobjid>=16384 LIMIT " FUNCTION_ROWS_MOST ") "
		"UNION ALL (SELECT DISTINCT 'e',(" CALLER
		")::text,b.refobjid::text,'r' FROM pg_depend b LEFT JOIN pg_rewrite r ON "
		"false,pg_proc p,pg_language l "
		"WHERE b.classid IN (2617,2605,1247,2616,2602,2603,3576) AND b.refclassid=1255 AND "
		"b.refobjid=p.oid AND p.oid>=16384 AND l.oid=p.prolang "
		"AND l.lanname NOT IN ('c','internal') LIMIT " FUNCTION_ROWS_MOST ") "
		"UNION ALL (SELECT DISTINCT 'e',(" CALLER
		")::text,b.refobjid::text,'f' FROM " REFERS
		") AND b.classid IN (1255,2618,3256) AND b.refclassid=1259 "
		"AND b.refobjid IN (SELECT ev_class FROM pg_rewrite v WHERE v.oid>=16384) AND "
		"(" CALLER ")<>b.refobjid LIMIT " FUNCTION_ROWS_MOST ") ");
	/* The words of texts that use a default tell that it may draw values; no word tells that a
	   foreign key uses one. */
	bytes_append_text(sql,
		"UNION ALL SELECT DISTINCT 'h',''," EFFECTS("t.tree") ",t.kind FROM ("
		"SELECT concat(q.polqual,q.polwithcheck) AS tree,'r' AS kind FROM pg_policy q "
		"UNION ALL SELECT k.conbin::text,CASE WHEN k.contypid>=16384 THEN 'r' ELSE 'w' END "
		"FROM pg_constraint k WHERE k.contype='c' AND "
		"(k.contypid>=16384 OR k.conrelid>=16384) "
		"UNION ALL SELECT concat(i.indexprs,i.indpred),'w' FROM pg_index i "
		"WHERE i.indrelid>=16384 "
		"UNION ALL SELECT t.tgqual::text,'w' FROM pg_trigger t "
		"WHERE NOT t.tgisinternal) AS t "
		"UNION ALL SELECT DISTINCT 'h','',d.flag,'r' FROM d WHERE "
		"EXISTS (SELECT 1 FROM pg_operator o WHERE o.oid>=16384 AND o.oprcode=d.oid) "
		"OR EXISTS (SELECT 1 FROM pg_cast s WHERE s.castfunc=d.oid) "
		"UNION ALL SELECT DISTINCT 'h','',translate(" EFFECTS("t.tree")
		",'qvc',''),'w' FROM ("
		"SELECT a.adbin::text AS tree FROM pg_attrdef a WHERE a.adrelid>=16384 "
		"UNION ALL SELECT y.typdefaultbin::text FROM pg_type y WHERE y.oid>=16384) AS t "
		"UNION ALL SELECT 'h','','i','w' WHERE EXISTS (SELECT 1 FROM pg_constraint k "
		"WHERE k.contype='f' AND 'd' IN (k.confdeltype,k.confupdtype));");
}

void state_functions_query(struct bytes *sql, bool has_functions)
{
	bytes_append_text(sql, bounds);
	bytes_append_text(sql, fingerprint);
	if (has_functions)
		append_functions_query(sql);
	bytes_append_text(sql, end_of_timeout);
}
