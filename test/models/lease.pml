/*
 * The lease of a worker, the fence of a run, and the rescuer (engine/session.ts, statements/claim.ts, completion.ts,
 * engine/rescuer.ts): two workers, sessions that run out at any moment, a worker that stops for any time between any
 * two steps and then goes on.
 *
 *   claim    one transaction: the run is free, the session alive; the epoch grows
 *   execute  the call of the handler, outside of any transaction, after the claim was committed
 *   end      one transaction: the run is still held by this session under this epoch
 *   rescue   one transaction: the session has run out; at least once: free again, at most once: ended, unknown
 *
 * Shown: a run ends once; no end is applied under an old epoch; an at-most-once run is executed once at most; an
 * at-least-once run has been executed when it ends, or was quarantined. NO_FENCE, EXECUTE_FIRST and RESCUE_RUNS_AGAIN leave out one
 * guard each; a counterexample must be found.
 */
#define WORKERS 2
#define MOST_EPOCHS 4

#ifdef NO_FENCE
#define STILL_MINE true
#else
#define STILL_MINE holder == me && epoch == mine
#endif

byte holder = WORKERS;       /* of the run; WORKERS: nobody */
byte epoch = 0;
bool ended = false;
byte ends = 0;
byte executions = 0;
bool stale_end = false;
bool quarantined = false;
bool alive[WORKERS];

active proctype clock() {
  do
  :: atomic { !ended && alive[0] -> alive[0] = false }
  :: atomic { !ended && alive[1] -> alive[1] = false }
  :: ended -> break
  od
}

active [WORKERS] proctype worker() {
  byte me = _pid - 1, mine;
  bool claimed;
  do
  :: ended -> break
  :: !ended ->
     alive[me] = true;                     /* a new session */
     claimed = false;
#ifdef EXECUTE_FIRST
     if
     :: holder == WORKERS && !ended -> executions++
     :: else -> skip
     fi;
#endif
     atomic {
       if
       :: !ended && holder == WORKERS && alive[me] && epoch < MOST_EPOCHS ->
          holder = me; epoch++; mine = epoch; claimed = true
       :: else -> skip
       fi
     };
     if
     :: claimed ->
#ifndef EXECUTE_FIRST
        executions++;
#endif
        /* here it may stop, lose its session, and wake */
        atomic {
          if
          :: !ended && STILL_MINE ->
             stale_end = stale_end || !(holder == me && epoch == mine);
             ended = true; ends++; holder = WORKERS
          :: else -> skip
          fi
        }
     :: else -> skip
     fi
  od
}

active proctype rescuer() {
  do
  :: atomic { !ended && holder < WORKERS && !alive[holder] ->
#if defined(AT_MOST_ONCE) && !defined(RESCUE_RUNS_AGAIN)
       ended = true; ends++;
#endif
       epoch++; holder = WORKERS }
  :: atomic { !ended && epoch >= MOST_EPOCHS && holder == WORKERS ->
       ended = true; ends++; quarantined = true }
  :: ended -> break
  od
}

active proctype judge() {
  ended;
  assert(ends == 1);
  assert(!stale_end);
#ifdef AT_MOST_ONCE
  assert(executions <= 1)
#else
  assert(executions >= 1 || quarantined)
#endif
}
