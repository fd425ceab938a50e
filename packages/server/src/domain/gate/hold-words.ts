/**
 * What holds a run at the gate, in sentences, and what can be done about it: written once, so that
 * `belfry run explain`, `belfry queue show` and the API say the same.
 */
import type { HoldKind } from '@belfry/contract'
import { spanWords } from '../explanation/time-words.ts'
import { because } from '../explanation/verdict-words.ts'
import type { Hold } from '../run-insight/explain-run.ts'

/** Instants are epoch ms. */
export interface HoldFacts {
  readonly kind: HoldKind
  /** Of the job, the queue or the pool. */
  readonly name: string | null
  readonly keyPath: string | null
  readonly ofPool: boolean
  readonly limit: number | null
  /** Weight of the slots that are taken. */
  readonly used: number | null
  /** Runs that have them. */
  readonly holders: readonly string[]
  /** Of a pause. */
  readonly sinceMs: number | null
  readonly reason: string | null
  /** When the next token is due, or a rest is over. */
  readonly untilMs: number | null
}

export interface HeldRun {
  readonly hold: HoldFacts
  /** Runs of the same group before it, counted up to a limit. */
  readonly ahead: number
  readonly aheadCapped: boolean
  /** When it could have started without the limit. */
  readonly availableAtMs: number
  readonly nowMs: number
}

export interface HoldWords {
  readonly message: string
  /** Null: wait. */
  readonly fix: string | null
}

/** Of one run, with its place among those that wait for the same. */
export function heldRunWords({ hold, ahead, aheadCapped, availableAtMs, nowMs }: HeldRun): Hold {
  const { message, fix } = holdWords(hold, nowMs)
  const many = `${aheadCapped ? 'At least ' : ''}${ahead.toLocaleString('en')}`
  const wait = ahead === 1 ? 'run waits' : 'runs wait'
  const before = ahead === 0 ? '' : ` ${many} ${wait} for the same before it.`
  return {
    message: message + before,
    fix,
    sinceMs: Math.max(hold.sinceMs ?? 0, availableAtMs),
    clearsAtMs: hold.untilMs,
    runIds: hold.holders,
  }
}

export function holdWords(hold: HoldFacts, nowMs: number): HoldWords {
  const { kind, limit, untilMs } = hold
  const name = hold.name ?? ''
  const taken = `${(hold.used ?? 0).toLocaleString('en')} of ${(limit ?? 0).toLocaleString('en')}`
  const more = (limit ?? 0) + 1
  switch (kind) {
    case 'paused_job':
      return paused(`job "${name}"`, hold, `belfry job resume ${name}`, nowMs)
    case 'paused_queue':
      return paused(`queue "${name}"`, hold, `belfry queue resume ${name}`, nowMs)
    case 'job':
      return {
        message: `The job "${name}" is at its limit of runs at once: ${taken}.`,
        fix: `Wait for one of them to end, or raise it: belfry job update ${name} --concurrency ${more}`,
      }
    case 'key': {
      const key = hold.keyPath ?? ''
      return {
        message: `The job "${name}" is at its limit of runs at once with one "${key}": ${taken}.`,
        fix: `Wait for one of them to end, or raise it: belfry job update ${name} --key-limit ${more}`,
      }
    }
    case 'pool':
      return {
        message: `The pool "${name}" has no room for it: ${taken} slots are taken.`,
        fix: `Wait for one to be free, or give it more: belfry pool update ${name} --slots ${more}`,
      }
    case 'tenant':
      return {
        message: `The tenant is at its limit of runs at once: ${taken}.`,
        fix: `Wait for one of them to end, or raise it: belfry queue limit --runs ${more}`,
      }
    case 'rate':
      return atRate(hold, nowMs)
    case 'unclaimed': {
      const missed = 'It had a place, but no worker took it while others waited for that'
      const again = untilMs === null ? '' : ` in ${spanWords(Math.max(0, untilMs - nowMs))}`
      return {
        message: `${missed}; it gets another${again}.`,
        fix: 'Start a worker that serves its queue.',
      }
    }
    case 'notice':
      return { message: 'It has just come to its limits, and is looked at in a moment.', fix: null }
  }
}

function paused(what: string, { reason, sinceMs }: HoldFacts, command: string, nowMs: number): HoldWords {
  const span = sinceMs === null ? '' : ` for ${spanWords(nowMs - sinceMs)}`
  return { message: `The ${what} is paused${span}${because(reason)}.`, fix: `Resume it: ${command}` }
}

function atRate({ name, keyPath, ofPool, untilMs }: HoldFacts, nowMs: number): HoldWords {
  const ofTenant = !ofPool && name === ''
  const whose = ofPool ? `pool "${name ?? ''}"` : ofTenant ? 'tenant' : `job "${name ?? ''}"`
  const ofWhose = ofPool ? 'Raise the rate of the pool, or wait.' : 'Raise "rateLimit" of the job, or wait.'
  const one = keyPath === null ? '' : ` for one "${keyPath}"`
  const next =
    untilMs === null ? '' : `; the next run may start in ${spanWords(Math.max(0, untilMs - nowMs))}`
  return {
    message: `The rate of the ${whose}${one} is used up${next}.`,
    fix: ofTenant ? 'Wait, or ask the operator for a larger quota "startRate".' : ofWhose,
  }
}
