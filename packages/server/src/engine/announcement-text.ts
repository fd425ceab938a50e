/**
 * An announcement as text, the body of a message: `{"queue":"mail","runs":[["<run id>",<tag>],…]}`. What
 * comes from outside is believed only as far as it has this form; ids that are none of ours cost a look for
 * nothing.
 */
import { type AnnouncedRun, type Announcement, maxRunsOfAnnouncement } from '../ports/announcements.ts'

/** In bytes; the longest of ours has about 3,000. */
const longest = 8_192
const idForm = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/
const queueForm = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/

export function announcementText({ queue, runs }: Announcement): string {
  return JSON.stringify({ queue, runs: runs.map(({ runId, tag }) => [runId, tag]) })
}

/** Undefined for all that is no announcement. */
export function parseAnnouncement(text: string | Buffer | null | undefined): Announcement | undefined {
  if (text === null || text === undefined || text.length > longest) return undefined
  const said = parsed(text.toString())
  if (typeof said !== 'object' || said === null) return undefined
  const { queue, runs, ...rest } = said as { queue?: unknown; runs?: unknown }
  if (Object.keys(rest).length > 0 || typeof queue !== 'string' || !queueForm.test(queue)) return undefined
  if (!Array.isArray(runs) || runs.length === 0 || runs.length > maxRunsOfAnnouncement) return undefined
  const listed = runs.map(toRun)
  return listed.includes(undefined) ? undefined : { queue, runs: listed as AnnouncedRun[] }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function toRun(said: unknown): AnnouncedRun | undefined {
  if (!Array.isArray(said) || said.length !== 2) return undefined
  const [runId, tag] = said as readonly unknown[]
  if (typeof runId !== 'string' || !idForm.test(runId)) return undefined
  return typeof tag === 'number' && Number.isFinite(tag) ? { runId, tag } : undefined
}
