#ifndef SHOW_COLUMNS_H
#define SHOW_COLUMNS_H

/*
 * The published interface of SHOW: command, standard columns with types in order, and command tag. The table is a separate copy of the standard groups
 * of include/tbl/figure.tbl so that the test detects changes of either.
 */
static const struct {
	const char *command, *columns, *tag;
} show_columns[] = {
	{ "SHOW STATS",
	  "database:text total_server_assignment_count:numeric total_xact_count:numeric "
	  "total_query_count:numeric total_received:numeric total_sent:numeric total_xact_time:numeric "
	  "total_query_time:numeric total_wait_time:numeric total_client_parse_count:numeric "
	  "total_server_parse_count:numeric total_bind_count:numeric total_client_login_count:numeric "
	  "avg_server_assignment_count:numeric avg_xact_count:numeric avg_query_count:numeric "
	  "avg_recv:numeric avg_sent:numeric avg_xact_time:numeric avg_query_time:numeric "
	  "avg_wait_time:numeric avg_client_parse_count:numeric avg_server_parse_count:numeric "
	  "avg_bind_count:numeric avg_client_login_count:numeric", "SHOW" },
	{ "SHOW STATS_TOTALS",
	  "database:text server_assignment_count:numeric xact_count:numeric query_count:numeric "
	  "bytes_received:numeric bytes_sent:numeric xact_time:numeric query_time:numeric "
	  "wait_time:numeric client_parse_count:numeric server_parse_count:numeric bind_count:numeric "
	  "client_login_count:numeric", "SHOW" },
	{ "SHOW STATS_AVERAGES",
	  "database:text server_assignment_count:numeric xact_count:numeric query_count:numeric "
	  "bytes_received:numeric bytes_sent:numeric xact_time:numeric query_time:numeric "
	  "wait_time:numeric avg_client_parse_count:numeric avg_server_parse_count:numeric "
	  "avg_bind_count:numeric avg_client_login_count:numeric", "SHOW" },
	{ "SHOW TOTALS",
	  "name:text value:numeric", "SHOW" },
	{ "SHOW SERVERS",
	  "type:text user:text database:text replication:text state:text addr:text port:int4 "
	  "local_addr:text local_port:int4 connect_time:text request_time:text wait:int4 wait_us:int4 "
	  "close_needed:int4 ptr:text link:text remote_pid:int4 tls:text application_name:text "
	  "prepared_statements:int4 id:int4", "SHOW" },
	{ "SHOW CLIENTS",
	  "type:text user:text database:text replication:text state:text addr:text port:int4 "
	  "local_addr:text local_port:int4 connect_time:text request_time:text wait:int4 wait_us:int4 "
	  "close_needed:int4 ptr:text link:text remote_pid:int4 tls:text application_name:text "
	  "prepared_statements:int4 id:int4", "SHOW" },
	{ "SHOW POOLS",
	  "database:text user:text cl_active:int4 cl_waiting:int4 cl_active_cancel_req:int4 "
	  "cl_waiting_cancel_req:int4 sv_active:int4 sv_active_cancel:int4 sv_being_canceled:int4 "
	  "sv_idle:int4 sv_used:int4 sv_tested:int4 sv_login:int4 maxwait:int4 maxwait_us:int4 "
	  "pool_mode:text load_balance_hosts:text", "SHOW" },
	{ "SHOW PEER_POOLS",
	  "peer_id:int4 cl_active_cancel_req:int4 cl_waiting_cancel_req:int4 sv_active_cancel:int4 "
	  "sv_login:int4", "SHOW" },
	{ "SHOW LISTS",
	  "list:text items:int4", "SHOW" },
	{ "SHOW USERS",
	  "name:text pool_size:text reserve_pool_size:text pool_mode:text max_user_connections:int4 "
	  "current_connections:int4 max_user_client_connections:int4 current_client_connections:int4", "SHOW" },
	{ "SHOW DATABASES",
	  "name:text host:text port:int4 database:text force_user:text pool_size:int4 "
	  "min_pool_size:int4 reserve_pool_size:int4 server_lifetime:int4 pool_mode:text "
	  "load_balance_hosts:text max_connections:int4 current_connections:int4 "
	  "max_client_connections:int4 current_client_connections:int4 paused:int4 disabled:int4", "SHOW" },
	{ "SHOW PEERS",
	  "peer_id:int4 host:text port:int4 pool_size:int4", "SHOW" },
	{ "SHOW FDS",
	  "fd:int4 task:text user:text database:text addr:text port:int4 cancel:int8 link:int4 "
	  "client_encoding:text std_strings:text datestyle:text timezone:text password:text "
	  "scram_client_key:17 scram_server_key:17", "SHOW" },
	{ "SHOW SOCKETS",
	  "type:text user:text database:text replication:text state:text addr:text port:int4 "
	  "local_addr:text local_port:int4 connect_time:text request_time:text wait:int4 wait_us:int4 "
	  "close_needed:int4 ptr:text link:text remote_pid:int4 tls:text application_name:text "
	  "prepared_statements:int4 id:int4 recv_pos:int4 pkt_pos:int4 pkt_remain:int4 send_pos:int4 "
	  "send_remain:int4 pkt_avail:int4 send_avail:int4", "SHOW" },
	{ "SHOW ACTIVE_SOCKETS",
	  "type:text user:text database:text replication:text state:text addr:text port:int4 "
	  "local_addr:text local_port:int4 connect_time:text request_time:text wait:int4 wait_us:int4 "
	  "close_needed:int4 ptr:text link:text remote_pid:int4 tls:text application_name:text "
	  "prepared_statements:int4 id:int4 recv_pos:int4 pkt_pos:int4 pkt_remain:int4 send_pos:int4 "
	  "send_remain:int4 pkt_avail:int4 send_avail:int4", "SHOW" },
	{ "SHOW CONFIG",
	  "key:text value:text default:text changeable:text", "SHOW" },
	{ "SHOW MEM",
	  "name:text size:int4 used:int4 free:int4 memtotal:int4", "SHOW" },
	{ "SHOW DNS_HOSTS",
	  "hostname:text ttl:int8 addrs:text", "SHOW" },
	{ "SHOW DNS_ZONES",
	  "zonename:text serial:int8 count:int4", "SHOW" },
	{ "SHOW VERSION",
	  "version:text", "SHOW" },
	{ "SHOW STATE",
	  "key:text value:text", "SHOW" },
};

/* The first column of the commands that have fixed rows. */
static const struct {
	const char *item, *names;
} show_rows[] = {
	{ "TOTALS",
	  "total_server_assignment_count total_xact_count total_query_count total_client_bytes "
	  "total_server_bytes total_xact_time total_query_time total_wait_time "
	  "total_ps_client_parse_count total_ps_server_parse_count total_ps_bind_count "
	  "total_client_login_count avg_server_assignment_count avg_xact_count avg_query_count "
	  "avg_client_bytes avg_server_bytes avg_xact_time avg_query_time avg_wait_time "
	  "avg_ps_client_parse_count avg_ps_server_parse_count avg_ps_bind_count "
	  "avg_client_login_count" },
	{ "LISTS",
	  "databases users peers pools peer_pools free_clients used_clients login_clients free_servers "
	  "used_servers dns_names dns_zones dns_queries dns_pending" },
	{ "STATE",
	  "active paused suspended" },
};

#endif
