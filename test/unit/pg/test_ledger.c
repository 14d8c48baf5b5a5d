/*
 * The ledger, tested in two ways. First scripts: strings of steps for each rule and each trap. Then a small model of a PostgreSQL backend (read a
 * message, answer, skip after errors, read COPY data), which a random client uses with random delays; the ledger, which sees only the messages, must
 * always agree with the model, including the outcome of each marked message.
 */
#include "pg/ledger.h"
#include "unit.h"

#include <stdlib.h>

/* ---- the short ways ---- */

static bool are_equal(const struct ledger *a, const struct ledger *b)
{
	if (a->used != b->used || a->depth != b->depth || a->counts != b->counts || a->copy_syncs != b->copy_syncs ||
	    a->stage != b->stage || a->answered != b->answered || a->open != b->open || a->executed != b->executed || a->skipping != b->skipping ||
	    a->copy_in != b->copy_in || a->copy_synced != b->copy_synced || a->lost != b->lost || a->plain != b->plain || a->is_particular != b->is_particular)
		return false;
	for (uint32_t i = 0; i < a->used; i++) {
		const struct ledger_entry *x = &a->small[(a->head + i) % a->capacity], *y = &b->small[(b->head + i) % b->capacity];

		if (x->kind != y->kind || x->owner != y->owner || x->mark != y->mark || x->plain != y->plain || x->count != y->count)
			return false;
	}
	return true;
}

static unsigned short_ways;

/* In every script, the short path, where it applies, must have the same result as the full path. */
static bool enter(struct ledger *l, uint8_t type, uint8_t what, enum ledger_owner owner, bool marked)
{
	struct ledger twin = *l;
	bool is_query = type == 'Q' && !marked && owner == OWED_TO_CLIENT && !l->entries, plain = false, entered;

	if (owner == OWED_TO_CLIENT && !(type == 'D' && what == 'S'))
		plain = marked ? ledger_sent_plain_marked(&twin, type) : ledger_sent_plain(&twin, type);
	if (is_query && l->used < l->capacity)
		plain = ledger_sent_query(&twin);
	entered = marked ? ledger_sent_marked(l, type, what, owner, MARK_PREPARED) : ledger_sent(l, type, what, owner);
	short_ways += plain;
	if (plain && entered && !l->entries && !are_equal(l, &twin))
		UNIT_FAIL("the short way of sending %c", type);
	ledger_check(l);
	return entered;
}

static bool send_both(struct ledger *l, uint8_t type, uint8_t what, enum ledger_owner owner)
{
	return enter(l, type, what, owner, false);
}

static bool send_marked_both(struct ledger *l, uint8_t type, uint8_t what, enum ledger_owner owner)
{
	return enter(l, type, what, owner, true);
}

static enum ledger_verdict receive_both(struct ledger *l, uint8_t type, enum ledger_owner *owner)
{
	struct ledger twin = *l;
	bool passes;
	enum ledger_verdict verdict;

	/* a ledger with its own ring would be changed together with its copy */
	passes = !l->entries && ledger_passes(&twin, type);
	verdict = ledger_received(l, type, owner);
	short_ways += passes;
	if (passes && (verdict != LEDGER_ANSWER || *owner != OWED_TO_CLIENT || twin.mark != l->mark || l->marks_skipped[0] != 0 ||
		       !are_equal(l, &twin)))
		UNIT_FAIL("the short way of receiving %c", type);
	ledger_check(l);
	return verdict;
}

/* Watched messages never pass unread; others do. */
TEST(watched)
{
	struct ledger l = { .used = 0 };
	enum ledger_owner owner;

	ledger_clear(&l);
	CHECK(ledger_sent_plain_marked(&l, 'P') && ledger_passes(&l, '1'));
	CHECK_INT(l.mark, MARK_PREPARED);
	CHECK(ledger_sent_plain_marked(&l, 'P'));
	ledger_watch_last(&l);
	CHECK(!ledger_passes(&l, '1'));
	CHECK(ledger_received(&l, '1', &owner) == LEDGER_ANSWER);
	ledger_clear(&l);
}

/* The rows of a COPY and the data of a walsender pass unread; their ends are processed. */
TEST(copy_data)
{
	static const char begins[] = { 'H', 'W' };

	for (size_t i = 0; i < sizeof(begins); i++) {
		struct ledger l = { .used = 0 };
		enum ledger_owner owner;

		ledger_clear(&l);
		CHECK(ledger_sent_query(&l) && !ledger_passes(&l, 'd') && !ledger_passes(&l, (uint8_t)begins[i]));
		CHECK(ledger_received(&l, (uint8_t)begins[i], &owner) == LEDGER_ANSWER);
		ledger_check(&l);
		CHECK(ledger_passes(&l, 'd') && ledger_passes(&l, 'd') && !ledger_passes(&l, 'C') && !ledger_passes(&l, 'c'));
		CHECK(ledger_received(&l, 'c', &owner) == LEDGER_ANSWER);
		ledger_check(&l);
		CHECK(!ledger_passes(&l, 'd'));
		CHECK((ledger_received(&l, 'd', &owner) == LEDGER_ANSWER) == (begins[i] == 'W'));
		ledger_clear(&l);
	}
}

/* ---- scripts ---- */

/*
 * Plays a script: ">" and "<" say which side sends (the client first), then each character is a message. "D" of the client is Describe of a portal
 * and "t" Describe of a statement, "C" is Close. "." asserts an empty ledger, "!" a non-empty ledger, "*" a lost ledger. From the server, "~X"
 * asserts that X is LEDGER_ASYNC and "#X" that X is LEDGER_BROKEN. "p" and "k" of the client make the following messages the pooler's or the client's
 * own, "m" and "u" make them marked or not, except Sync. "+" of the client is a promise, "+" of the server asserts that the promise is due, and keeps
 * it. Records the owners of the answers, in order, and the reported outcomes: for each answer "d" (done), "f" (failed) or "-" (nothing), followed by
 * an "s" for each skipped marked message.
 */
static char owners[256], news[256];
static size_t owners_count, news_count;

struct sender {
	enum ledger_owner owner;
	bool marks;
};

static void play_sent(struct ledger *l, char c, struct sender *from)
{
	if (c == 'p' || c == 'k')
		from->owner = c == 'p' ? OWED_TO_POOLER : OWED_TO_CLIENT;
	else if (c == 'm' || c == 'u')
		from->marks = c == 'm';
	else if (c == '+')
		CHECK(ledger_local_reply(l));
	else
		CHECK((from->marks && c != 'S' ? send_marked_both : send_both)(l, (uint8_t)(c == 't' ? 'D' : c), c == 't' ? 'S' : 'P',
								       from->owner));
}

static void play_kept(struct ledger *l, const char *script)
{
	if (!ledger_local_reply_is_due(l))
		UNIT_FAIL("%s: no promise is due", script);
	else
		ledger_local_reply_sent(l);
	news[news_count++] = '+';
}

/* Writes the outcome that an answer reported, as letters, and returns their number. */
static unsigned news_of(const struct ledger *l, char *letters)
{
	letters[0] = !l->mark ? '-' : l->mark_failed ? 'f' : 'd';
	for (uint32_t i = 0; i < l->marks_skipped[0]; i++)
		letters[1 + i] = 's';
	return 1 + l->marks_skipped[0];
}

/* `at` is at the message or at its mark; afterwards at the last character read. */
static void play_received(struct ledger *l, const char **at, const char *script)
{
	enum ledger_verdict want = **at == '~' ? LEDGER_ASYNC : **at == '#' ? LEDGER_BROKEN : LEDGER_ANSWER, got;
	enum ledger_owner owner = OWED_TO_CLIENT;
	char c;

	if (want != LEDGER_ANSWER)
		(*at)++;
	c = **at;
	if (want == LEDGER_ANSWER && ledger_local_reply_is_due(l))
		UNIT_FAIL("%s: '%c' comes before what is promised", script, c);
	got = receive_both(l, (uint8_t)c, &owner);
	if (got != want)
		UNIT_FAIL("%s: '%c' gives %d, want %d", script, c, got, want);
	news_count += news_of(l, news + news_count);
	if (want == LEDGER_ANSWER)
		owners[owners_count++] = owner == OWED_TO_POOLER ? 'p' : 'k';
}

static void play_assert(const struct ledger *l, char c, const char *script, long at)
{
	bool fine = c == '*' ? l->lost && !ledger_is_empty(l) : ledger_is_empty(l) == (c == '.');

	if (!fine)
		UNIT_FAIL("%s: '%c' does not hold at %ld", script, c, at);
}

/* The test must clear the remaining ledger. */
static struct ledger play_through(const char *script)
{
	struct sender from = { OWED_TO_CLIENT, false };
	bool client = true;
	struct ledger l = { .used = 0 };

	owners_count = news_count = 0;
	ledger_clear(&l);
	for (const char *c = script; *c; c++) {
		if (*c == '>' || *c == '<')
			client = *c == '>';
		else if (strchr(".!*", *c))
			play_assert(&l, *c, script, c - script);
		else if (client)
			play_sent(&l, *c, &from);
		else if (*c == '+')
			play_kept(&l, script);
		else if (*c != ' ')
			play_received(&l, &c, script);
	}
	owners[owners_count] = news[news_count] = '\0';
	return l;
}

static const char *play(const char *script)
{
	struct ledger l = play_through(script);

	ledger_clear(&l);
	return owners;
}

static const char *play_news(const char *script)
{
	play(script);
	return news;
}

static bool holds_after(bool (*question)(const struct ledger *), const char *script)
{
	struct ledger l = play_through(script);
	bool holds = question(&l);

	ledger_clear(&l);
	return holds;
}

TEST(simple_queries)
{
	play(".>Q!<TDDC!Z.>Q<IZ.>Q<TDCTDCC!Z.");
	play(">QQQ<CZCZ!EZ.");
	play(">Q<E!#C#D#TZ.");
}

TEST(extended_queries)
{
	play(">PBDES!<12TDDC!Z.");
	play(">PBDES<12nCZ.");
	play(">tS<tT!Z.>tS<tnZ.");
	play(">CS<3Z.>EEES<DDsDsC!Z.>ES<IZ.");
	play(">S<Z.>SSS<ZZ!Z.");
}

/* Trap 1: twenty batches in one write, and one more Sync. */
TEST(trap_1_pipelines)
{
	char script[600] = ">";

	for (int i = 0; i < 20; i++)
		strcat(script, "PBDES");
	strcat(script, "S<");
	for (int i = 0; i < 20; i++)
		strcat(script, "12TDC!Z!");
	strcat(script, "Z.");
	play(script);
}

/* Trap 3 and 4: all answers have arrived, and the server is not free: no Sync yet. */
TEST(trap_3_and_4_flush)
{
	play(">PDH<1n!>BEH<2DC!>S!<Z.");
	play(">PBEH<12DDs!>EH!<DDs!>EH<DC!>S!<Z.");
	play(">PBE<12C!>Q!<TDCZ.");		/* a Query ends the batch, too */
	play(">PBE<12C!>F!<VZ.");
}

/* Trap 5: no answers are expected for messages that the server skips. */
TEST(trap_5_errors_until_sync)
{
	play(">BEQ<E!>S!<Z.");
	play(">BEQFPtCS!<E!Z.");
	play(">PBES<E!Z.");
	play(">PBESPBES<1E!Z!12CZ.");
	play(">B<E!>EQF!H!>S<Z.>Q<CZ.");
	play(">tS<tE!Z.");
	play(">PS<1E!Z.");			/* the commit in Sync fails: nothing is skipped */
	play(">PBES Q<12CE#CZ!CZ.");
	play(">PH<1~E!>BE!S!<Z.");		/* fails between two messages */
	play(">PBEBE<1E!>S<Z.");		/* and messages that are counted together are removed together */
	play(">EEES<sE!Z.");
}

/* Traps 34 and 35: Syncs during COPY IN, failed COPY, leftovers. */
TEST(trap_34_sync_during_copy)
{
	play(">PBES<12G!>ddc!<C!>S!<Z.");
	play(">PBE<12G!>dSdSc!S<C!Z.");
	play(">PBESdcS<12GC!Z.");		/* pipelined before the server answers */
	play(">PBESdc<12GC!>S<Z.");
	play(">PBESdcc<12GC!>S<Z.");		/* the second CopyDone is a leftover */
	play(">Q<G>dScS<C!Z!Z.");
	play(">QSScQ<GCZ!CZ.");
	play(">Q<G>dc<C!G!>dc<CTDC!Z.");
	play(">QSdcSdcS<GCGC!Z!Z.");		/* two COPYs, known in advance */
	play(">ES<G#Z#1#T#D#I#s#H#d#c#G!>f<E!>S<Z!");
}

TEST(trap_35_failed_copy)
{
	play(">Q<G>d<E!Z.>dcf.>Q<CZ.");
	play(">Q<G>ddc<E!Z.");
	play(">Q<G>f<EZ.");
	play(">Qdc<E!Z.");			/* the COPY has not begun */
	play(">PBE<12G>d<E!>ddc!S!<Z.");
	play(">PBE<12G>dcS!<E!Z.");
	play(">PBE<12G>dc<C!>PBES<12CZ.");
	play(">QdcQdc<GEZ!GCZ.");
}

/* It is unknown which Syncs the server had read when the COPY failed; both cases must be handled. */
TEST(failed_copy_leaves_syncs_in_doubt)
{
	/* COPY into a view fails before data is read, and the Sync is answered. */
	play(">PBES<12GE!Z.");
	play(">PBES<12GE!Z.>cS<Z.>Q<TDCZ.");
	play(">PBES<12GE!>cS!<Z!Z.");
	/* A bad row: the Sync had been read, as a later answer proves. */
	play(">PBES<12G>d<E!>cS!<Z!>Q<TDCZ.");
	play(">PBES<12G>d<E!>cS!<Z!>PBES<1!2DCZ.");
	play(">PBES<12G>d<E!>cS!<Z!>Q<EZ.");
	play(">Q<G>dSSd<E!Z!Z!>Q<CZ.");
	play(">Q<G>dSSd<E!Z!Z!Z.");
	play(">Q<G>dS<EE!Z!Z.");
	play(">Q<G>dSSd<E!Z!>Q!<Z!Z!CZ.");
	/* Whether the Sync was skipped is unknown. */
	play(">PBES<12G>d<E!>P*<Z12CZ");
	play(">PBES<12G>dcPS<E*Z1Z");
	/* Another COPY in the meantime, which has its own Syncs. */
	play(">Q<G>dS<E!Z!>Q<G>Sc<C!Z.");
}

TEST(breaking_a_copy)
{
	play(">Q<G>Q*<CZ #R#K#v#p");
	play(">QQ<G*CZ");
	play(">EPS<G*");
	play(">Q<G>E*");
}

TEST(copy_out_and_copy_both)
{
	play(">Q<HdddcCZ.>PBES<12Hd#D#Z#GdcCZ.");
	play(">ES<Hd!EZ.>Q<HdEZ.");
	play(">Q<Wdd>dd<d>c<dcTDCCZ.");
	play(">Q<Wdc!>c<CZ.");
	play(">Q<WdcCZ.>Q<TDCZ.");		/* the client's half ends with the statement */
}

/* A walsender answers CopyDone within a transaction that it is decoding, and sends the rest of it. */
TEST(data_after_the_server_has_ended_its_half_of_copy_both)
{
	play(">Q<Wd>dc<cdd!dCCZ.>Q<TDCZ.");
	play(">Q<Wdcd>dc<dTDCCZ.");		/* the server ends first */
	play(">Q<Wd>c<cdEZ.");
	play(">Q<Wdcd#c#W#Z#DCZ.");
	play(">E<Wd>cS<cdC!#dZ.");
	play(">Q<Hdc#dCZ.");			/* a COPY to the client has no other half */
}

TEST(handover_within_the_last_data_of_copy_both)
{
	struct ledger old = play_through(">Q<Wd>c<cd"), new = { .used = 0 };
	struct bytes packed = BYTES_EMPTY;
	struct unpack in;
	enum ledger_owner owner;

	ledger_clear(&new);
	ledger_pack(&packed, &old);
	in = unpack_of(bytes_front(&packed), bytes_size(&packed));
	CHECK(ledger_unpack(&in, &new) && are_equal(&old, &new));
	CHECK(receive_both(&new, 'd', &owner) == LEDGER_ANSWER && receive_both(&new, 'C', &owner) == LEDGER_ANSWER);
	bytes_free(&packed);
	ledger_clear(&old);
	ledger_clear(&new);
}

/* Trap 37. */
TEST(trap_37_function_call)
{
	play(">F!<V!Z.>F<EZ.>FFQ<VZ!EZTDCZ.>F<VEZ.");
	play(">F<#Z#CV#VZ.");
}

TEST(unexpected_messages)
{
	play("<#Z#C#1#2#3#T#D#t#n#s#I#G#H#W#V#d#c#R#K#v#x#p.");
	play("<~N~A~S~E.");
	play(">Q<~NT~A~SD~NCZ~S.");
	play(">XHdcf.");
}

TEST(wrong_answers)
{
	static const char all[] = "123CDGHITVWZcdnst";
	static const struct { const char *before, *legal; } at[] = {
		{ ">P", "1" }, { ">B", "2" }, { ">C", "3" }, { ">D", "Tn" }, { ">t", "t" }, { ">t<t", "Tn" },
		{ ">E", "CDGHIWs" }, { ">Q", "CDGHITW" }, { ">Q<C", "CDGHITWZ" }, { ">F", "V" }, { ">S", "Z" },
		{ ">Q<E", "Z" }, { ">F<V", "Z" }, { ">Q<G", "C" }, { ">E<H", "Ccd" }, { ">Q<W", "Ccd" }, { ">Q<Wc", "CTd" },
		{ ">E<Hc", "CDGHIWs" }, { ">EB<s", "2" },
	};

	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++)
		for (const char *c = all; *c; c++) {
			char script[32];

			snprintf(script, sizeof(script), "%s<%s%c", at[i].before, strchr(at[i].legal, *c) ? "" : "#", *c);
			play(script);
		}
}

TEST(owners)
{
	CHECK_TEXT(play(">pQkQ<CZTDCZ"), "ppkkkk");
	CHECK_TEXT(play(">pPkPS<11Z"), "pkk");
	CHECK_TEXT(play(">pBkESpQ<EZCZ"), "pkpp");
	CHECK_TEXT(play(">pStkS<ZtTZ"), "pppk");
}

TEST(marks)
{
	CHECK_PAIRS(play_news,
		{ ">mPuBDES<12TDCZ", "d-----" }, { ">PBmDuES<12TDCZ", "--d---" },
		{ ">mPBDCS<12n3Z", "dddd-" }, { ">PBDCS<12n3Z", "-----" },
		{ ">mtS<tTZ>tS<tnZ", "-d--d-" },		/* two messages have one answer */
		{ ">mPPPS<111Z", "ddd-" }, { ">mPuPPmPS<1111Z", "d--d-" },
		{ ">pmPkPpuPkPmPS<11111Z", "dd--d-" },		/* from the client or the pooler */
		{ ">mEEEES<DDCDsIHdcCZ", "--d-dd---d-" },
		{ ">mQQ<TDCIZEZ>FF<VZEZ", "----d-d-d-d" },	/* messages that end with ReadyForQuery in any case */
		{ ">mP<~N~S1~A", "--d-" },
		{ ">mPuH<1>mB<2", "dd" });
}

TEST(marks_of_failed_messages)
{
	CHECK_PAIRS(play_news,
		{ ">mPuBDES<EZ", "f-" }, { ">mPuS<EZ>mPuS<1Z", "f-d-" },
		{ ">mPuS<1EZ", "d--" },				/* the commit fails */
		{ ">mtS<tEZ", "-f-" }, { ">mES<DEZ", "-f-" }, { ">mES<HdEZ", "--f-" },
		{ ">mE<G>dd<E", "-f" }, { ">mE<G>f<E", "-f" }, { ">mEuS<GEZ", "-f-" },
		{ ">pmPuS<EZ", "f-" });
}

TEST(marks_of_skipped_messages)
{
	CHECK_PAIRS(play_news,
		{ ">PmBuES<EZ", "-s-" }, { ">PmBBBuES<EZ", "-sss-" }, { ">PBDESmBuS<EZ2Z", "--d-" },
		{ ">mPPPPS<1EZ", "dfss-" },			/* equal neighbours counted together */
		{ ">mPPuPPmPPBS<1EZ", "dfsss-" }, { ">PPmPuBmCuS<1EZ", "--ss-" },
		{ ">mPuBmDtpCkuEmEQFS<EZ", "fssssss-" },	/* of any kind, from the client or the pooler */
		{ ">mPBSBPS<EZ2EZ", "fs-df-" },			/* up to the Sync */
		{ ">PmBuES<~NEZ~S", "--s--" },			/* reported once */
		{ ">mPuH<E>mPBuES<Z>mPuS<1Z", "f-d-" },		/* messages without an entry report nothing */
		{ ">mPuH<1~E>mBuS<Z", "d--" },
		{ ">BmB+B+uS<EZ", "-ssss-" });
}

/* A Sync that a COPY may have read makes the outcome of no mark uncertain. */
TEST(marks_near_a_copy)
{
	CHECK_PAIRS(play_news,
		{ ">mE<G>uSd<~N>c<C>mPuS<1Z", "--dd-" },
		{ ">mEuSdc<GC>mPuS<1Z", "-dd-" },
		{ ">mEuS<G>d<E>cS<Z>mPuS<1Z", "-f-d-" },
		{ ">mEuS<G>d<E>cS<Z>mPuS<Z1Z", "-f--d-" },	/* the surplus answer matches no message */
		{ ">mEuS<G>d<E>cS<Z>mPuBS<EZ", "-f-f-" },
		{ ">mEdcuS<GEZ", "-f-" }, { ">mEdcPuS<GEZ", "-fs-" });
}

/* The COPY ignores the Sync. */
TEST(marked_sync_before_a_copy)
{
	enum ledger_owner owner;
	struct ledger l = { .used = 0 };

	ledger_clear(&l);
	CHECK(ledger_sent(&l, 'E', 0, OWED_TO_CLIENT) && ledger_sent_marked(&l, 'S', 0, OWED_TO_POOLER, MARK_TASK));
	CHECK_INT(ledger_received(&l, 'G', &owner), LEDGER_ANSWER);
	CHECK(l.mark == LEDGER_UNMARKED && l.marks_skipped[MARK_TASK] == 1 && l.marks_skipped[MARK_PREPARED] == 0);
	ledger_clear(&l);
}

/* A lost ledger reports no outcomes. */
TEST(marks_and_a_lost_ledger)
{
	CHECK_PAIRS(play_news,
		{ ">mEPuS<G*1Z", "---" }, { ">mEEuS<G*CCZ", "----" },
		{ ">mEuSdcmPuS<GE*1Z", "----" },
		{ ">mE<G>P*<E1", "---" }, { ">mEuS<G>d<E>mP*<Z1", "-f--" },
		{ ">Q<G>Q*mP+<CZ1", "----" });
}

/* A server with a lost ledger is released between two batches, so the end of a batch must be known. */
TEST(a_lost_ledger_and_an_open_batch)
{
	static const struct { const char *script; bool open; } cases[] = {
		{ ">EEuS<G*", false }, { ">EEuSP<G*", true }, { ">E<G>P*", true }, { ">E<G>SQ*", false }, { ">E<G>ScPB<E*", true },
		{ ">E<G>ScPBS<E*", false }, { ">E<G>Sc<C>SBESBE<Z2G*", true },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ledger l = play_through(cases[i].script);

		if (l.open != cases[i].open)
			UNIT_FAIL("%s: open is %d", cases[i].script, l.open);
		CHECK(ledger_sent(&l, 'B', 0, OWED_TO_CLIENT) && l.open && ledger_sent(&l, 'H', 0, OWED_TO_CLIENT) && l.open);
		CHECK(ledger_sent(&l, 'S', 0, OWED_TO_CLIENT) && !l.open && ledger_sent(&l, 'D', 'S', OWED_TO_CLIENT) && l.open);
		CHECK(ledger_sent(&l, 'Q', 0, OWED_TO_CLIENT) && !l.open && l.lost);
		ledger_clear(&l);
	}
}

TEST(promises)
{
	CHECK_PAIRS(play_news,
		{ ">+!<+!>S<Z.", "+-" },			/* no answer is pending, but a batch is open */
		{ ">+S!<+!Z.", "+-" }, { ">+++S<+++!Z.", "+++-" },
		{ ">P+BS<1+2Z.", "-+--" }, { ">P++CS<1++3Z.", "-++--" },
		{ ">mP+uBS<1+2Z.", "d+--" }, { ">pP+kBS<1+2Z.", "-+--" },
		{ ">t+S<tT+Z.", "--+-" }, { ">E+S<DDs+Z.", "---+-" }, { ">Q+S<TDCZ+Z.", "----+-" },
		{ ">Edc+S<GC+Z.", "--+-" },
		{ ">+S+S<+Z+Z.", "+-+-" }, { ">PS+SPS<1Z+Z1Z.", "--+---" });	/* across Syncs */
	play(">+<#1#2#3#C#D#I#s#n#T#t#Z+>S<Z.");		/* the server cannot answer this message */
}

TEST(promises_skipped_by_an_error)
{
	CHECK_PAIRS(play_news,
		{ ">P+S<EZ.", "-s-" }, { ">mP+uS<EZ.", "fs-" }, { ">P++B+S<1++EZ.", "-++-s-" },
		{ ">P+S+S<EZ+Z.", "-s-+-" },
		{ ">S+S<EZ+Z.", "--+-" }, { ">Q+S<EZ+Z.", "--+-" },	/* these errors skip nothing */
		{ ">PH<E>+!S<Z.", "--" }, { ">PH<1~E>+!S<Z.", "---" }, { ">+H<+~E>+!S<Z.", "+--" },
		{ ">E<G>+*", "-" }, { ">E+<G*", "-" }, { ">Q<G>Q*+<CZ", "---" });
}

TEST(when_a_promise_is_due)
{
	CHECK(!holds_after(ledger_local_reply_is_due, ""));
	CHECK(holds_after(ledger_local_reply_is_due, ">+"));
	CHECK(!holds_after(ledger_local_reply_is_due, ">+<+"));
	CHECK(holds_after(ledger_local_reply_is_due, ">++<+"));
	CHECK(!holds_after(ledger_local_reply_is_due, ">P+"));
	CHECK(holds_after(ledger_local_reply_is_due, ">P+<1"));
	CHECK(!holds_after(ledger_local_reply_is_due, ">t+<t"));
	CHECK(!holds_after(ledger_local_reply_is_due, ">Q+<C"));
	CHECK(holds_after(ledger_local_reply_is_due, ">Q+<CZ"));
	CHECK(!holds_after(ledger_local_reply_is_due, ">Edc+<G"));
	CHECK(holds_after(ledger_local_reply_is_due, ">PBPBPBPBt+<12121212tn"));	/* in a ring that has grown */
	CHECK(!holds_after(ledger_local_reply_is_due, ">PBPBPBPBt+<12121212t"));
}

static bool head_is_marked(const struct ledger *l)
{
	return ledger_next_mark(l) != LEDGER_UNMARKED;
}

TEST(when_the_head_is_marked)
{
	CHECK(!holds_after(head_is_marked, ""));
	CHECK(!holds_after(head_is_marked, ">PmP"));
	CHECK(holds_after(head_is_marked, ">PmP<1"));
	CHECK(!holds_after(head_is_marked, ">mP<1"));
	CHECK(holds_after(head_is_marked, ">mPP<1"));
	CHECK(!holds_after(head_is_marked, ">mPuPmB<1"));
	CHECK(holds_after(head_is_marked, ">mtuS<t"));
	CHECK(!holds_after(head_is_marked, ">mP<E"));
	CHECK(holds_after(head_is_marked, ">+"));
	CHECK(!holds_after(head_is_marked, ">PmBuPBPBPBPB<1212"));
	CHECK(holds_after(head_is_marked, ">PBPBPBPBmP<12121212"));
}

/* Messages without an entry: the server ignores them or takes them for the end of a COPY. */
TEST(messages_that_get_an_entry)
{
	CHECK(holds_after(ledger_enters, ""));
	CHECK(holds_after(ledger_enters, ">PBES"));
	CHECK(!holds_after(ledger_enters, ">P<E"));
	CHECK(!holds_after(ledger_enters, ">P<1~E"));
	CHECK(holds_after(ledger_enters, ">PS<E"));
	CHECK(holds_after(ledger_enters, ">P<E>S"));
	CHECK(holds_after(ledger_enters, ">Q<E"));
	CHECK(!holds_after(ledger_enters, ">Q<G"));
	CHECK(holds_after(ledger_enters, ">Q<G>c"));
	CHECK(!holds_after(ledger_enters, ">E<G>c<E"));
	CHECK(!holds_after(ledger_enters, ">Q<W"));
	CHECK(holds_after(ledger_enters, ">Q<H"));
	CHECK(!holds_after(ledger_enters, ">QQ<G*CZCZ"));
}

/* If the first pending message fails, all pending messages are skipped. */
/* Parameters are reported before ReadyForQuery, and an Execute, Query or FunctionCall may change them. */
TEST(pending_messages_that_may_change_parameters)
{
	static const char *const is[] = { "", ">PBDtC", ">mP+", ">PBE<12C>S<Z", ">Q<CZ", ">PES<E>P<Z", ">PES<1CZ>PB" };
	static const char *const is_not[] = {
		">E", ">PBE<12C", ">PBE<12C>PB", ">PBES<12C", ">Q", ">Q<C", ">Q<C>P", ">F", ">PS", ">E<E", ">PES<1C>P", ">E<G>Sc",
	};

	for (size_t i = 0; i < sizeof(is) / sizeof(is[0]); i++)
		if (!holds_after(ledger_is_up_to_date, is[i]))
			UNIT_FAIL("%s: changed", is[i]);
	for (size_t i = 0; i < sizeof(is_not) / sizeof(is_not[0]); i++)
		if (holds_after(ledger_is_up_to_date, is_not[i]))
			UNIT_FAIL("%s: not changed", is_not[i]);
}

TEST(pending_messages_in_one_batch)
{
	CHECK(holds_after(ledger_is_one_batch, ""));
	CHECK(holds_after(ledger_is_one_batch, ">PBDtEC+"));
	CHECK(holds_after(ledger_is_one_batch, ">mPBDtEpC"));
	CHECK(!holds_after(ledger_is_one_batch, ">S"));
	CHECK(!holds_after(ledger_is_one_batch, ">PBS"));
	CHECK(!holds_after(ledger_is_one_batch, ">PBS<12"));
	CHECK(holds_after(ledger_is_one_batch, ">PBS<12Z"));
	CHECK(!holds_after(ledger_is_one_batch, ">SPB"));
	CHECK(holds_after(ledger_is_one_batch, ">SPB<Z"));
	CHECK(!holds_after(ledger_is_one_batch, ">PBSPB<12"));
	CHECK(holds_after(ledger_is_one_batch, ">PBSPB<12Z1"));
	CHECK(!holds_after(ledger_is_one_batch, ">Q"));
	CHECK(!holds_after(ledger_is_one_batch, ">F"));
	CHECK(!holds_after(ledger_is_one_batch, ">PQ"));
	CHECK(!holds_after(ledger_is_one_batch, ">Edc"));
	/* beyond the wrap of the ring, and in a grown ring */
	CHECK(holds_after(ledger_is_one_batch, ">PBPBPB<12121>PBPBPB"));
	CHECK(!holds_after(ledger_is_one_batch, ">PBPBPB<12121>PBPBPS"));
	CHECK(!holds_after(ledger_is_one_batch, ">PBPBPB<12121>PBSBPB"));
	CHECK(holds_after(ledger_is_one_batch, ">PBPBPBPBPBPBPB"));
	CHECK(!holds_after(ledger_is_one_batch, ">PBPBPBPBPBPBPS"));
}

TEST(pending_messages_of_a_query)
{
	CHECK(!holds_after(ledger_is_within_query, ""));
	CHECK(!holds_after(ledger_is_within_query, ">Q"));
	CHECK(holds_after(ledger_is_within_query, ">Q<C"));
	CHECK(holds_after(ledger_is_within_query, ">Q<CC"));
	CHECK(!holds_after(ledger_is_within_query, ">Q<CZ"));
	CHECK(!holds_after(ledger_is_within_query, ">QQ<CZ"));
	CHECK(holds_after(ledger_is_within_query, ">QQ<CZC"));
	CHECK(!holds_after(ledger_is_within_query, ">ESQ<C"));
	CHECK(!holds_after(ledger_is_within_query, ">EQ<C"));
	CHECK(holds_after(ledger_is_within_query, ">EQ<CC"));
	CHECK(!holds_after(ledger_is_within_query, ">EES<C"));
}

TEST(pending_messages_that_may_copy)
{
	struct ledger l = { .used = 0 };
	enum ledger_owner owner;

	ledger_clear(&l);
	CHECK(!ledger_may_copy(&l));
	send_both(&l, 'P', 0, OWED_TO_CLIENT);
	send_both(&l, 'S', 0, OWED_TO_CLIENT);
	CHECK(!ledger_may_copy(&l));
	send_both(&l, 'Q', 0, OWED_TO_CLIENT);
	CHECK(ledger_may_copy(&l));
	receive_both(&l, '1', &owner);
	receive_both(&l, 'Z', &owner);
	receive_both(&l, 'G', &owner);
	CHECK(ledger_may_copy(&l));
	send_both(&l, 'c', 0, OWED_TO_CLIENT);
	CHECK(ledger_may_copy(&l));		/* a Query may contain another COPY */
	receive_both(&l, 'E', &owner);
	CHECK(!ledger_may_copy(&l));
	send_both(&l, 'F', 0, OWED_TO_CLIENT);
	CHECK(!ledger_may_copy(&l));
	send_both(&l, 'E', 0, OWED_TO_CLIENT);
	CHECK(ledger_may_copy(&l));
	ledger_clear(&l);
	CHECK(!ledger_may_copy(&l));
}

/* Equal neighbours need no memory, different ones grow the ring, and an empty ledger is small again. */
TEST(depth_and_memory)
{
	struct ledger l = { .used = 0 };
	enum ledger_owner owner;

	ledger_clear(&l);
	for (int i = 0; i < 1000; i++)
		CHECK(send_both(&l, 'S', 0, OWED_TO_CLIENT));
	CHECK_INT(ledger_depth(&l), 1000);
	CHECK(!l.entries);
	for (int i = 0; i < 990; i++)
		CHECK(receive_both(&l, 'Z', &owner) == LEDGER_ANSWER);
	for (int i = 0; i < 1000; i++)
		for (const char *c = "PBES"; *c; c++)
			CHECK(send_both(&l, (uint8_t)*c, 0, i % 2 ? OWED_TO_CLIENT : OWED_TO_POOLER));
	CHECK_INT(ledger_depth(&l), 4010);
	CHECK(l.entries != NULL);
	for (int i = 0; i < 10; i++)
		CHECK(receive_both(&l, 'Z', &owner) == LEDGER_ANSWER);
	for (int i = 0; i < 1000; i++)
		for (const char *c = "12CZ"; *c; c++) {
			CHECK(receive_both(&l, (uint8_t)*c, &owner) == LEDGER_ANSWER);
			CHECK_INT(owner, i % 2 ? OWED_TO_CLIENT : OWED_TO_POOLER);
		}
	CHECK(ledger_is_empty(&l));
	CHECK_INT(ledger_depth(&l), 0);
	CHECK(!l.entries);
	ledger_clear(&l);
}

/* Marked messages and promises are counted like others, but merged only with equal entries. */
TEST(depth_of_marks_and_promises)
{
	struct ledger l = { .used = 0 };
	enum ledger_owner owner;

	ledger_clear(&l);
	for (int i = 0; i < 1000; i++)
		CHECK(ledger_local_reply(&l));
	CHECK_INT(ledger_depth(&l), 1000);
	CHECK(!l.entries);
	for (int i = 0; i < 999; i++)
		ledger_local_reply_sent(&l);
	CHECK_INT(ledger_depth(&l), 1);
	CHECK(ledger_local_reply_is_due(&l));
	ledger_local_reply_sent(&l);
	CHECK_INT(ledger_depth(&l), 0);
	CHECK(!ledger_is_empty(&l));
	for (int i = 0; i < 500; i++)
		CHECK(send_marked_both(&l, 'P', 0, OWED_TO_CLIENT) && send_both(&l, 'P', 0, OWED_TO_CLIENT) &&
		      ledger_local_reply(&l));
	CHECK_INT(ledger_depth(&l), 1500);
	CHECK(receive_both(&l, '1', &owner) == LEDGER_ANSWER);
	CHECK_INT(l.mark, MARK_PREPARED);
	CHECK(receive_both(&l, 'E', &owner) == LEDGER_ANSWER);
	CHECK_INT(l.mark, LEDGER_UNMARKED);
	CHECK_INT(l.marks_skipped[0], 999);
	CHECK_INT(ledger_depth(&l), 0);
	CHECK(!l.entries);
	CHECK(receive_both(&l, 'N', &owner) == LEDGER_ASYNC);
	CHECK_INT(l.marks_skipped[0], 0);
	ledger_clear(&l);
}

/* The invariants that the head comment of ledger.c lists. */
static void check_invariants(const struct ledger *l)
{
	const struct ledger_entry *ring = l->entries ? l->entries : l->small;
	size_t marker, depth = 0;
	struct ledger probe = { .used = 0 };

	/* The kind of the marker: the entry that CopyDone leaves after a Query. */
	ledger_clear(&probe);
	send_both(&probe, 'Q', 0, OWED_TO_CLIENT);
	send_both(&probe, 'c', 0, OWED_TO_CLIENT);
	marker = probe.small[1].kind;
	for (uint32_t i = 0; i < l->used; i++) {
		const struct ledger_entry *e = &ring[(l->head + i) % l->capacity];

		CHECK(e->count > 0);
		CHECK(i > 0 || e->kind != marker);
		depth += e->kind != marker ? e->count : 0;
	}
	CHECK_INT(depth, ledger_depth(l));
	CHECK(l->used <= l->capacity);
	CHECK(l->used || !l->stage);
	CHECK(!l->skipping || !l->used);
	CHECK(!l->copy_in || l->used == 1);
	CHECK(!l->lost || !l->used);
}

/* Pending marked messages and promises. */
static unsigned marked_in(const struct ledger *l)
{
	const struct ledger_entry *ring = l->entries ? l->entries : l->small;
	unsigned marked = 0;

	for (uint32_t i = 0; i < l->used; i++)
		marked += ring[(l->head + i) % l->capacity].mark ? ring[(l->head + i) % l->capacity].count : 0;
	return marked;
}

/* ---- the model ---- */

/*
 * A message carries its outcome, for when the backend handles it, as a string:
 * r rows and CommandComplete
 * n a command without rows
 * i EmptyQueryResponse
 * s PortalSuspended
 * g COPY IN
 * v COPY IN that fails before data is read
 * o COPY OUT
 * e an error
 * A Query may have several of them, an Execute has exactly one. For other messages, and for CopyData: "e", or "" for success. '+' is a promise: the
 * backend receives it in sequence, and its answer shows when the pooler's answer is due.
 */
struct message {
	char type, what;
	enum ledger_owner owner;
	char plan[4];
	bool marked;
};

struct answer {
	char type;
	enum ledger_owner owner;
	bool async;
};

#define QUEUE 4096

struct backend {
	struct message in[QUEUE];
	struct answer out[QUEUE];
	unsigned in_head, in_tail, out_head, out_tail;
	bool skipping, open, copying;
	struct message now;		/* the statement that copies */
	const char *rest;		/* and the outcomes after the COPY */
	char fates[QUEUE];		/* outcomes of marked messages and promises: d f s; + is a kept promise */
	unsigned fate_count;
};

static unsigned long long seed;

static unsigned chance(unsigned n)
{
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (unsigned)(seed >> 33) % n;
}

static void say(struct backend *b, char type, enum ledger_owner owner)
{
	if (!chance(20))
		b->out[b->out_tail++ % QUEUE] = (struct answer){ "NAS"[chance(3)], owner, true };
	b->out[b->out_tail++ % QUEUE] = (struct answer){ type, owner, false };
}

static void say_all(struct backend *b, const char *types, enum ledger_owner owner)
{
	while (*types)
		say(b, *types++, owner);
}

static void settle(struct backend *b, const struct message *m, char fate)
{
	if (m->marked)
		b->fates[b->fate_count++ % QUEUE] = fate;
}

static void backend_fail(struct backend *b, const struct message *m)
{
	bool skips = !strchr("QFS", m->type);

	say(b, 'E', m->owner);
	b->copying = false;
	b->open = false;
	if (skips)
		b->skipping = true;
	else
		say(b, 'Z', m->owner);
	settle(b, m, skips ? 'f' : 'd');
}

/* Continues with the statements of a Query or Execute, up to a COPY IN or the end. */
static void backend_run(struct backend *b)
{
	bool query = b->now.type == 'Q';
	enum ledger_owner owner = b->now.owner;

	while (*b->rest) {
		switch (*b->rest++) {
		case 'r': say_all(b, query ? "TDDC" : "DDC", owner); break;
		case 'n': say(b, 'C', owner); break;
		case 'i': say(b, 'I', owner); break;
		case 's': say_all(b, "DDs", owner); break;
		case 'o': say_all(b, "HddcC", owner); break;
		case 'g':
			say(b, 'G', owner);
			b->copying = true;
			return;
		case 'v':
			say(b, 'G', owner);
			backend_fail(b, &b->now);
			return;
		case 'e':
			if (chance(2))
				say_all(b, query ? "TD" : "D", owner);
			backend_fail(b, &b->now);
			return;
		}
	}
	if (query) {
		say(b, 'Z', owner);
		b->open = false;
	}
	settle(b, &b->now, 'd');
}

static void backend_copy(struct backend *b, const struct message *m)
{
	if ((m->type == 'd' && *m->plan) || m->type == 'f') {
		backend_fail(b, &b->now);
	} else if (m->type == 'c') {
		b->copying = false;
		say(b, 'C', b->now.owner);
		backend_run(b);
	} else if (!strchr("dHS", m->type)) {
		UNIT_FAIL("the random client breaks a COPY with '%c'", m->type);
	}
}

static void backend_extended(struct backend *b, const struct message *m)
{
	b->open = true;
	if (m->type == 'E') {
		b->now = *m;
		b->rest = b->now.plan;
		backend_run(b);
		return;
	}
	if (*m->plan == 'e') {
		if (m->type == 'D' && m->what == 'S' && chance(2))
			say(b, 't', m->owner);
		backend_fail(b, m);
		return;
	}
	if (m->type == 'D')
		say_all(b, m->what == 'S' ? (chance(2) ? "tT" : "tn") : chance(2) ? "T" : "n", m->owner);
	else
		say(b, m->type == 'P' ? '1' : m->type == 'B' ? '2' : m->type == 'C' ? '3' : '+', m->owner);
	settle(b, m, m->type == '+' ? '+' : 'd');
}

static void backend_step(struct backend *b)
{
	const struct message *m = &b->in[b->in_head++ % QUEUE];

	if (b->copying) {
		backend_copy(b, m);
		return;
	}
	if (m->type == 'S')
		b->skipping = false;
	if (b->skipping)
		settle(b, m, 's');
	if (b->skipping || strchr("Hdcf", m->type))
		return;
	switch (m->type) {
	case 'S':
	case 'F':
		/* A Sync fails only if there is something to commit. */
		if (*m->plan == 'e' && (m->type == 'F' || b->open)) {
			backend_fail(b, m);
			return;
		}
		say_all(b, m->type == 'F' ? "VZ" : "Z", m->owner);
		b->open = false;
		settle(b, m, 'd');
		return;
	case 'Q':
		b->now = *m;
		b->rest = b->now.plan;
		backend_run(b);
		return;
	default:
		backend_extended(b, m);
	}
}

/* No message that has an answer is on the way, no answer is on the way back, and no batch is open. */
static bool backend_is_free(const struct backend *b)
{
	for (unsigned i = b->in_head; i != b->in_tail; i++)
		if (!strchr("Hdcf", b->in[i % QUEUE].type))
			return false;
	return b->out_head == b->out_tail && !b->open && !b->skipping && !b->copying;
}

struct world {
	struct backend b;
	struct ledger l;
	bool syncs_in_copy;		/* the client sends these, too */
	unsigned due;			/* CopyDone or CopyFail that the client still has to send */
	char told[QUEUE];		/* the outcomes that the ledger has reported */
	unsigned told_count, compared;
	unsigned long empty, lost, skipped, done, failed, passed, kept;
};

static void world_send(struct world *w, struct message m)
{
	m.marked = m.marked && ledger_enters(&w->l);
	if (m.type == '+')
		CHECK(ledger_local_reply(&w->l));
	else if (m.marked)
		CHECK(send_marked_both(&w->l, (uint8_t)m.type, (uint8_t)m.what, m.owner));
	else
		CHECK(send_both(&w->l, (uint8_t)m.type, (uint8_t)m.what, m.owner));
	w->b.in[w->b.in_tail++ % QUEUE] = m;
}

static void world_receive(struct world *w)
{
	struct answer a = w->b.out[w->b.out_head++ % QUEUE];
	enum ledger_owner owner = OWED_TO_CLIENT;
	enum ledger_verdict verdict;
	unsigned count;

	if (!a.async && !w->l.lost && ledger_local_reply_is_due(&w->l) != (a.type == '+'))
		UNIT_FAIL("a promise is due: %d; '%c' comes", ledger_local_reply_is_due(&w->l), a.type);
	if (a.type == '+') {
		ledger_local_reply_sent(&w->l);
		w->told[w->told_count++ % QUEUE] = '+';
		return;
	}
	verdict = receive_both(&w->l, (uint8_t)a.type, &owner);
	count = news_of(&w->l, news);
	for (unsigned i = *news == '-'; i < count; i++)
		w->told[w->told_count++ % QUEUE] = news[i];
	if (verdict != (a.async ? LEDGER_ASYNC : LEDGER_ANSWER))
		UNIT_FAIL("'%c' gives %d", a.type, verdict);
	if (!a.async && owner != a.owner)
		UNIT_FAIL("'%c' goes to the wrong owner", a.type);
}

static void random_plan(struct world *w, struct message *m)
{
	static const char *const fates[] = { "r", "n", "i", "s", "g", "v", "o", "e", "r", "n", "g" };

	if (m->type == 'E') {
		snprintf(m->plan, sizeof(m->plan), "%s", fates[chance(11)]);
	} else if (m->type == 'Q') {
		for (unsigned i = 0, n = 1 + chance(3); i < n; i++)
			m->plan[i] = "rngvoe"[chance(6)];
	} else if (!chance(m->type == 'd' ? 3 : 12)) {
		m->plan[0] = 'e';
	}
	if (m->type == 'E' || m->type == 'Q')
		for (const char *c = m->plan; *c; c++)
			w->due += *c == 'g' || *c == 'v';
}

/* A pending COPY is followed by data, and by CopyDone or CopyFail, before any other message. */
static void random_message(struct world *w)
{
	struct message m = { 0 };

	if (w->due) {
		m.type = "dddHccf"[chance(7)];
		if (w->syncs_in_copy && !chance(3))
			m.type = 'S';
		w->due -= m.type == 'c' || m.type == 'f';
	} else {
		m.type = "PPBBDDEEECSSSSQQQFHdcf"[chance(22)];
	}
	m.what = "SP"[chance(2)];
	m.owner = w->syncs_in_copy || chance(3) ? OWED_TO_CLIENT : OWED_TO_POOLER;
	m.marked = strchr("PBDECQF", m.type) && chance(2);
	random_plan(w, &m);
	/* while an extra ReadyForQuery may arrive, a promise may be due before it */
	if (strchr("PBDC", m.type) && !w->syncs_in_copy && !chance(4) && ledger_enters(&w->l))
		m = (struct message){ .type = '+', .owner = OWED_TO_CLIENT, .marked = true };
	world_send(w, m);
}

/* Compares the outcomes known to both: the ledger knows skipped messages before the backend reaches them. */
static void compare_fates(struct world *w)
{
	while (w->compared < w->told_count && w->compared < w->b.fate_count) {
		char told = w->told[w->compared % QUEUE], fate = w->b.fates[w->compared % QUEUE];

		if (told != fate)
			UNIT_FAIL("mark %u: '%c' is told, '%c' is so", w->compared, told, fate);
		w->compared++;
		*(fate == 'd' ? &w->done : fate == 'f' ? &w->failed : fate == 's' ? &w->passed : &w->kept) += 1;
	}
}

static void world_check(struct world *w)
{
	bool is_free = backend_is_free(&w->b), empty = ledger_is_empty(&w->l);

	w->empty += empty;
	w->skipped += w->l.skipping;
	if (empty && !is_free)
		UNIT_FAIL("the ledger is empty, the backend is not free");
	if (!empty && is_free && !(w->syncs_in_copy && (w->l.lost || w->l.copy_syncs)))
		UNIT_FAIL("the backend is free, the ledger is not empty");
	if (!w->syncs_in_copy && w->l.lost)
		UNIT_FAIL("lost without a reason");
	if (!w->l.lost)
		compare_fates(w);
}

static void world_turn(struct world *w, unsigned eager)
{
	unsigned what = chance(eager);

	if (what == 0 && w->b.in_tail - w->b.in_head < 100)
		random_message(w);
	else if (what % 2 && w->b.in_head != w->b.in_tail)
		backend_step(&w->b);
	else if (w->b.out_head != w->b.out_tail)
		world_receive(w);
	world_check(w);
}

/* Ends the client properly: ends every COPY, then sends a Sync and (to resolve doubts) a query. */
static void world_end(struct world *w)
{
	static const struct message end[] = {
		{ .type = 'S', .owner = OWED_TO_CLIENT }, { .type = 'Q', .owner = OWED_TO_CLIENT, .plan = "r" },
	};

	for (; w->due; w->due--)
		world_send(w, (struct message){ .type = 'c', .owner = OWED_TO_CLIENT });
	for (int i = 0; i < 2; i++) {
		world_send(w, end[i]);
		while (w->b.in_head != w->b.in_tail || w->b.out_head != w->b.out_tail) {
			if (w->b.in_head != w->b.in_tail)
				backend_step(&w->b);
			while (w->b.out_head != w->b.out_tail)
				world_receive(w);
			world_check(w);
		}
	}
	CHECK(w->l.lost || ledger_is_empty(&w->l));
	CHECK(w->l.lost || !w->l.entries);
	CHECK(w->l.lost || (w->compared == w->told_count && w->compared == w->b.fate_count));
	w->lost += w->l.lost;
}

static void model(bool syncs_in_copy, struct world *w)
{
	memset(w, 0, sizeof(*w));
	w->syncs_in_copy = syncs_in_copy;
	for (unsigned round = 0; round < 3000 && !unit_faults; round++) {
		seed = round * 2 + syncs_in_copy;
		ledger_clear(&w->l);
		memset(&w->b, 0, sizeof(w->b));
		w->told_count = w->compared = 0;
		for (unsigned turn = 0; turn < 20 + round % 200; turn++)
			world_turn(w, 2 + round % 7);
		world_end(w);
		ledger_clear(&w->l);
		if (unit_faults)
			UNIT_FAIL("round %u", round);
	}
}

/* Both sides send random messages, including a few invalid types: the ledger's invariants hold. */
TEST(random_messages_keep_the_invariants)
{
	static const char sent[] = "PBDECSQFHdcfXp?", received[] = "123ACDEGHINSTVWZcdnstRKv?";

	seed = 1;
	for (int round = 0; round < 500 && !unit_faults; round++) {
		enum ledger_owner owner;
		struct ledger l = { .used = 0 };

		ledger_clear(&l);
		for (int turn = 0; turn < 100; turn++) {
			unsigned marked = marked_in(&l), what = chance(8);

			if (what < 4) {
				/* drawn in this order, independent of the compiler */
				uint8_t type = (uint8_t)sent[chance(15)], of = (uint8_t)"SP"[chance(2)];

				CHECK((what < 2 ? send_both : send_marked_both)(&l, type, of, chance(2)));
			} else if (what == 4) {
				CHECK(ledger_local_reply(&l));
			} else if (ledger_local_reply_is_due(&l) && chance(4)) {
				ledger_local_reply_sent(&l);
				CHECK_INT(marked_in(&l), marked - 1);
			} else {
				/* every mark has reported its outcome */
				receive_both(&l, (uint8_t)received[chance(25)], &owner);
				CHECK_INT(l.lost ? marked : marked_in(&l) + (l.mark != LEDGER_UNMARKED) + l.marks_skipped[0], marked);
			}
			check_invariants(&l);
		}
		ledger_clear(&l);
	}
}

static struct world world;

TEST(model_without_syncs_in_copy)
{
	model(false, &world);
	CHECK(world.empty > 1000);
	CHECK(world.skipped > 1000);
	CHECK_INT(world.lost, 0);
	CHECK(world.done > 1000);
	CHECK(world.failed > 1000);
	CHECK(world.passed > 1000);
	CHECK(world.kept > 1000);
}

TEST(model_with_syncs_in_copy)
{
	model(true, &world);
	CHECK(world.empty > 1000);
	CHECK(world.lost > 0);
	CHECK(world.lost < 1500);
	CHECK(world.done > 1000);
	CHECK(world.failed > 1000);
	CHECK(world.passed > 1000);
	CHECK(short_ways > 100000);
}

UNIT_MAIN
