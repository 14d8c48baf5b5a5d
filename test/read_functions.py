#!/usr/bin/env python3
"""
Writes include/tbl/read_functions.tbl: the built-in functions that the recogniser of reads (sql/read_text.c) accepts. Run it with connection strings of
the relevant PostgreSQL versions:

test/read_functions.py "host=/run/postgresql dbname=postgres" ... > include/tbl/read_functions.tbl

The list is by hand, by the chapters of "Functions and Operators" in the PostgreSQL documentation, because the catalogue does not say enough: only functions
that are not volatile in any version and overload belong here, and none of these:

- functions about the server, its settings and other sessions: current_setting, version, inet_server_addr, most functions of the chapters "System
  Information" and "System Administration" (pg_...); they answer differently on a standby
- transaction identifiers (age of an xid is left, because the recogniser refuses the columns that have one), sequences, large objects, advisory locks
- functions that execute a text (query_to_xml, table_to_xml, cursor_to_xml, ts_stat, ts_rewrite), and so user code
- functions that convert JSON or XML to a row type (json_populate_record, json_to_record): a domain in it may have a constraint with user code
- functions of data types, operators and indexes that no text calls by name

The other functions here execute only built-in code, and code of the types of their arguments: output functions, comparisons, hash functions, casts to json.
The question to the catalogue (read_text_ask) excludes types and casts with code in other languages than C.
"""
import sys

LIST = """
comparison: num_nonnulls num_nulls

mathematical: abs cbrt ceil ceiling degrees div erf erfc exp factorial floor gamma gcd lcm lgamma ln log log10 min_scale mod pi power pow radians round scale
sign sqrt trim_scale trunc width_bucket acos acosd asin asind atan atand atan2 atan2d cos cosd cot cotd sin sind tan tand sinh cosh tanh asinh acosh atanh

string: ascii bit_length btrim casefold char_length character_length chr concat concat_ws format initcap left length lower lpad ltrim md5 octet_length
overlay parse_ident position quote_ident quote_literal quote_nullable regexp_count regexp_instr regexp_like regexp_match regexp_matches regexp_replace
regexp_split_to_array regexp_split_to_table regexp_substr repeat replace reverse right rpad rtrim split_part starts_with string_to_array string_to_table
strpos substr substring to_ascii to_bin to_hex to_oct translate unistr upper

binary: bit_count convert convert_from convert_to crc32 crc32c decode encode get_bit get_byte set_bit set_byte sha224 sha256 sha384 sha512

formatting: to_char to_date to_number to_timestamp

date: age date_add date_bin date_part date_subtract date_trunc extract isfinite justify_days justify_hours justify_interval make_date make_interval make_time
make_timestamp make_timestamptz now statement_timestamp timezone transaction_timestamp

conversions: date float4 float8 int2 int4 int8 numeric text timestamptz

enum: enum_first enum_last enum_range

geometric: area bound_box box center circle diagonal diameter height isclosed isopen length line lseg npoints path pclose point polygon popen radius slope width

network: abbrev broadcast family host hostmask inet_merge inet_same_family macaddr8_set7bit masklen netmask network set_masklen

text_search: array_to_tsvector json_to_tsvector jsonb_to_tsvector numnode phraseto_tsquery plainto_tsquery querytree setweight strip
to_tsquery to_tsvector ts_delete ts_filter ts_headline ts_rank ts_rank_cd tsquery_phrase tsvector_to_array websearch_to_tsquery

uuid: uuid_extract_timestamp uuid_extract_version

json: array_to_json json_array_elements json_array_elements_text json_array_length json_build_array json_build_object json_each json_each_text
json_extract_path json_extract_path_text json_object json_object_keys json_strip_nulls json_typeof jsonb_array_elements jsonb_array_elements_text
jsonb_array_length jsonb_build_array jsonb_build_object jsonb_each jsonb_each_text jsonb_extract_path jsonb_extract_path_text jsonb_insert jsonb_object
jsonb_object_keys jsonb_path_exists jsonb_path_exists_tz jsonb_path_match jsonb_path_match_tz jsonb_path_query jsonb_path_query_array
jsonb_path_query_array_tz jsonb_path_query_first jsonb_path_query_first_tz jsonb_path_query_tz jsonb_pretty jsonb_set jsonb_set_lax jsonb_strip_nulls
jsonb_typeof row_to_json to_json to_jsonb

array: array_append array_dims array_fill array_length array_lower array_ndims array_position array_positions array_prepend array_remove array_replace
array_cat array_reverse array_sort array_to_string array_upper cardinality trim_array unnest

range: daterange datemultirange int4range int4multirange int8range int8multirange isempty lower_inc lower_inf multirange numrange nummultirange range_merge
tsrange tsmultirange tstzrange tstzmultirange upper_inc upper_inf

aggregate: any_value array_agg avg bit_and bit_or bit_xor bool_and bool_or count every json_agg json_agg_strict json_object_agg json_object_agg_strict
json_object_agg_unique json_object_agg_unique_strict jsonb_agg jsonb_agg_strict jsonb_object_agg jsonb_object_agg_strict jsonb_object_agg_unique
jsonb_object_agg_unique_strict max min range_agg range_intersect_agg string_agg sum corr covar_pop covar_samp regr_avgx regr_avgy regr_count
regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy stddev stddev_pop stddev_samp var_pop var_samp variance mode percentile_cont
percentile_disc

window: cume_dist dense_rank first_value lag last_value lead ntile nth_value percent_rank rank row_number

series: generate_series generate_subscripts

information: current_database current_schema current_schemas has_any_column_privilege has_column_privilege has_database_privilege has_function_privilege
has_schema_privilege has_sequence_privilege has_table_privilege has_type_privilege pg_size_pretty pg_typeof
"""
NAMES = sorted({word for word in LIST.split() if not word.endswith(":")}, key=lambda name: (len(name), name))


def table():
    yield "/*"
    yield " * Built-in functions that only read, by their size: see sql/read_text.c. Made by test/read_functions.py."
    yield " */"
    size = 0
    for number, name in enumerate(NAMES):
        while size < len(name):
            size += 1
            yield "READ_FUNCTION_SIZE(%d, %d)" % (size, number)
        yield 'READ_FUNCTION("%s")' % name
    for rest in range(size + 1, 65):
        yield "READ_FUNCTION_SIZE(%d, %d)" % (rest, len(NAMES))


VOLATILE = "SELECT proname::text, bool_or(provolatile = 'v') FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND oid < 16384 GROUP BY proname"


def main():
    import psycopg2
    known = {}
    for where in sys.argv[1:]:
        with psycopg2.connect(where) as database, database.cursor() as cursor:
            cursor.execute(VOLATILE)
            for name, is_volatile in cursor.fetchall():
                known[name] = known.get(name, False) or is_volatile
    wrong = [name for name in NAMES if known.get(name, True)]
    if wrong:
        sys.exit("unknown or volatile: " + " ".join(wrong))
    print("\n".join(table()))


if __name__ == "__main__":
    main()
