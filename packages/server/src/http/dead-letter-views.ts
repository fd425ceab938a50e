/**
 * Dead letters as the API shows them: one, what a filter means, and groups by error. The pattern of a group
 * is made of what its newest run said.
 */
import type { DeadLetter, DeadLetterGroup, DeadLetterGroups, DeadLetterSelection } from '@belfry/contract'
import { maxBulkBreakdown, maxGroupJobs } from '@belfry/contract'
import { errorPattern } from '../domain/error-fingerprint.ts'
import type { DeadLetterRecord, LetterTallies, LetterTally } from '../ports/dead-letters.ts'
import { jobCounts, sumOf } from './bulk.ts'

const dayMs = 86_400_000
const iso = (instantMs: number): string => new Date(instantMs).toISOString()
const isoOrNull = (instantMs: number | null): string | null => (instantMs === null ? null : iso(instantMs))

export function deadLetterView(letter: DeadLetterRecord, retentionDays: number): DeadLetter {
  // the day of the run is dropped as a whole
  const keptUntilMs = (Math.floor(letter.createdAtMs / dayMs) + retentionDays + 1) * dayMs
  return {
    runId: letter.runId,
    jobId: letter.jobId,
    job: letter.jobName,
    jobVersion: letter.jobVersion,
    scheduleId: letter.scheduleId,
    scheduledFor: isoOrNull(letter.scheduledForMs),
    source: letter.source,
    queue: letter.queue,
    reason: letter.reason,
    errorCode: letter.errorCode,
    errorMessage: letter.errorMessage,
    fingerprint: letter.fingerprint,
    attempts: letter.attempts,
    createdAt: iso(letter.createdAtMs),
    failedAt: iso(letter.failedAtMs),
    keptUntil: iso(keptUntilMs),
    state: letter.state,
    replayedAs: letter.replayedAs,
    replayedAt: isoOrNull(letter.replayedAtMs),
    deletedAt: isoOrNull(letter.deletedAtMs),
  }
}

export function selectionView(
  { tallies, total, isWhole }: LetterTallies,
  sample: readonly DeadLetter[],
): DeadLetterSelection {
  const errors = [...byFingerprint(tallies)].map(([fingerprint, group]) => ({
    fingerprint,
    errorCode: group[0]?.errorCode ?? '',
    count: sumOf(group),
  }))
  return {
    count: total,
    exact: isWhole,
    byJob: jobCounts(tallies),
    byError: errors.sort((a, b) => b.count - a.count).slice(0, maxBulkBreakdown),
    sample: [...sample],
  }
}

/** The groups with the most dead letters, without what their samples said. */
export function largestGroups({ tallies }: LetterTallies, limit: number): LetterTally[][] {
  const groups = [...byFingerprint(tallies).values()]
  return groups.sort((a, b) => sumOf(b) - sumOf(a) || lastOf(b) - lastOf(a)).slice(0, limit)
}

export function groupsView(
  all: LetterTallies,
  groups: readonly (readonly LetterTally[])[],
  messages: ReadonlyMap<string, string | null>,
): DeadLetterGroups {
  return {
    items: groups.map((group) => groupView(group, messages)),
    groupsTotal: byFingerprint(all.tallies).size,
    looked: all.looked,
    exact: all.isWhole,
  }
}

/** The run that stands for a group: the one that failed last. */
export function sampleOf(group: readonly LetterTally[]): string {
  const latest = group.reduce((last, each) => (each.lastAtMs > last.lastAtMs ? each : last))
  return latest.sampleRunId
}

function groupView(
  group: readonly LetterTally[],
  messages: ReadonlyMap<string, string | null>,
): DeadLetterGroup {
  const sampleRunId = sampleOf(group)
  const sampleMessage = messages.get(sampleRunId) ?? null
  return {
    fingerprint: group[0]?.fingerprint ?? '',
    errorCode: group[0]?.errorCode ?? '',
    pattern: errorPattern(sampleMessage ?? ''),
    count: sumOf(group),
    firstAt: iso(Math.min(...group.map(({ firstAtMs }) => firstAtMs))),
    lastAt: iso(lastOf(group)),
    sampleRunId,
    sampleMessage,
    jobs: jobCounts(group, maxGroupJobs),
    jobsTotal: new Set(group.map(({ jobId }) => jobId)).size,
  }
}

const lastOf = (group: readonly LetterTally[]): number =>
  group.reduce((last, { lastAtMs }) => Math.max(last, lastAtMs), 0)

function byFingerprint(tallies: readonly LetterTally[]): Map<string, LetterTally[]> {
  const groups = new Map<string, LetterTally[]>()
  for (const tally of tallies) {
    const group = groups.get(tally.fingerprint)
    if (group === undefined) groups.set(tally.fingerprint, [tally])
    else group.push(tally)
  }
  return groups
}
