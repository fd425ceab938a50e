/**
 * Flags and steps that several nouns share: lists with
 * pages, the wait for a run, words after a change.
 */
import type { Run } from '@belfry/contract'
import { reasonWords } from '@belfry/contract'
import type { Client, Listing, Page } from '@belfry/sdk'
import type { Call, FlagSpec } from '../command.ts'
import { exitCodes, UsageError } from '../exit-codes.ts'
import type { Shape } from '../output/printer.ts'
import { runShape } from '../output/shapes.ts'
import { plain } from '../output/text.ts'
import { durationWords } from '../output/times.ts'

export const listFlags: readonly FlagSpec[] = [
  { name: 'limit', value: 'count', summary: 'Items to show, 1 to 1000; 50 if left out' },
  { name: 'cursor', value: 'cursor', summary: 'Go on behind an earlier page' },
  { name: 'all', summary: 'All pages' },
]

/** Of lists of what was made at some time. */
export const madeFlags: readonly FlagSpec[] = [
  { name: 'since', value: 'time', summary: 'Made from this time on: 1h (ago), or 2026-12-01T00:00:00Z' },
  { name: 'until', value: 'time', summary: 'Made before this time' },
]

export const inputFlag: FlagSpec = {
  name: 'input',
  value: 'json',
  summary: 'Input as JSON, or @file, or @- for stdin',
}

export const waitFlags: readonly FlagSpec[] = [
  {
    name: 'wait',
    summary: 'Wait until the run has ended; exit code 5 if it did not succeed, 6 if time ran out',
  },
  { name: 'timeout', value: 'duration', summary: 'Longest wait, such as 60s; no limit if left out' },
]

/** The states that --state names, once or several times, with commas or without. */
export function statesFromFlag<State extends string>(
  call: Call,
  states: readonly State[],
): State[] | undefined {
  const named = call.flags.list('state').flatMap((text) => text.split(','))
  const wrong = named.find((name) => !(states as readonly string[]).includes(name))
  if (wrong !== undefined) throw new UsageError(`--state "${wrong}" is not one of ${states.join(', ')}`)
  const known = states.filter((state) => named.includes(state))
  return known.length === 0 ? undefined : known
}

/** The paging part of a list's query. */
export function pageQuery(call: Call): { limit?: number; cursor?: string } {
  const limit = call.flags.whole('limit', 1, 1000) ?? (call.flags.on('all') ? 1000 : undefined)
  const cursor = call.flags.text('cursor')
  return { ...(limit === undefined ? {} : { limit }), ...(cursor === undefined ? {} : { cursor }) }
}

/**
 * The first page with something on it: a page can be empty and have a next one, where a filter lets few
 * things pass.
 */
async function firstPage<T>(items: Listing<T>): Promise<Page<T>> {
  for await (const page of items.pages()) if (page.items.length > 0) return page
  return { items: [], nextCursor: null }
}

/** Prints a list: one page, or with --all every page as one; JSON lines come page by page. */
export async function printList<T>(
  call: Call,
  items: Listing<T>,
  shape: Shape<T>,
  empty: string,
): Promise<void> {
  if (!call.flags.on('all')) return call.printer.list(await firstPage(items), shape, empty)
  if (call.printer.format !== 'jsonl') {
    return call.printer.list({ items: await items.take(Infinity), nextCursor: null }, shape, empty)
  }
  let shown = 0
  for await (const page of items.pages()) {
    if (page.items.length > 0) call.printer.list({ items: page.items }, shape, empty)
    shown += page.items.length
  }
  if (shown === 0) call.printer.list({ items: [] }, shape, empty)
}

const infinitives = {
  Approved: 'approve',
  Asked: 'ask',
  Canceled: 'cancel',
  Changed: 'change',
  Created: 'create',
  Deleted: 'delete',
  Disabled: 'disable',
  Enabled: 'enable',
  Kept: 'keep',
  Made: 'make',
  Paused: 'pause',
  Put: 'put',
  Rejected: 'reject',
  Resumed: 'resume',
  Revoked: 'revoke',
  Sent: 'send',
  Set: 'set',
  Started: 'start',
  Using: 'use',
  Woke: 'wake',
} as const

type Verb = keyof typeof infinitives

/**
 * Says what a change did, or would do, and what to type next. `done` begins with what was done, so that it
 * can be said of a dry run as what would be.
 */
export function sayChange(call: Call, done: `${Verb} ${string}`, ...next: readonly string[]): void {
  const end = done.indexOf(' ')
  const would = `would ${infinitives[done.slice(0, end) as Verb]}${done.slice(end)}`
  if (call.dryRun) call.printer.say(`Dry run, nothing was stored: ${would}`)
  else call.printer.say(done, ...next.map((line) => `Next: ${line}`))
}

/** The object without the fields that are undefined; they were not given. */
export function given<T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>
  }
}

/** A copy without some of its fields. */
export function without<T extends object, K extends keyof T>(value: T, ...names: readonly K[]): Omit<T, K> {
  const left = Object.entries(value).filter(([name]) => !(names as readonly PropertyKey[]).includes(name))
  return Object.fromEntries(left) as Omit<T, K>
}

export function refuseTogether(call: Call, ...names: readonly string[]): void {
  const both = call.flags.given(names)
  if (both.length > 1) throw new UsageError(`give only one of ${both.map((name) => `--${name}`).join(', ')}`)
}

/** Waits for a run, telling its states on the way; prints it and answers the exit code. */
export async function waitAndPrint(call: Call, client: Client, id: string): Promise<number> {
  const run = await client.waitForRun(id, {
    timeoutMs: call.flags.durationMs('timeout'),
    onChange: (changed) => call.printer.say(progress(changed)),
  })
  call.printer.row(run, runShape)
  if (run.state === 'succeeded') return exitCodes.ok
  call.printer.say(...whyNot(run), `Next: belfry run logs ${run.id}`)
  return exitCodes.runDidNotSucceed
}

function progress(run: Run): string {
  const attempt = run.attempts === 0 ? '' : `, attempt ${run.attempts} of ${run.maxAttempts}`
  const late = run.lateMs === null ? '' : `, ${durationWords(run.lateMs)} late`
  return `Run ${run.id}: ${run.state}${attempt}${late}`
}

/** Why a run did not succeed. */
export function whyNot(run: Run): string[] {
  const error = run.attemptList.findLast((attempt) => attempt.error !== null)?.error
  const reason = run.reason === null ? '' : ` (${run.reason})`
  const words =
    error === undefined || error === null ? '' : `: ${plain(error.message)} (${plain(error.code)})`
  const { reason: why } = run
  const meaning = why === 'outcome_unknown' || why === 'quarantined' ? [reasonWords[why]] : []
  return [`The run ended ${run.state}${reason}${words}`, ...meaning]
}
