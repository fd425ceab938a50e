/**
 * Which SQS queue carries which queue of Belfry: all by one, or each by its own where the URL has `{queue}`
 * in it. SQS takes fewer letters in a name than Belfry and only 80 of them; the true name of a queue is in
 * each message, and never read back from a URL.
 */
import { createHash } from 'node:crypto'

const place = '{queue}'
const longestName = 80
const hashDigits = 10

export const hasQueueEach = (template: string): boolean => template.includes(place)

export const isFifo = (url: string): boolean => url.endsWith('.fifo')

export function urlOfQueue(template: string, queue: string): string {
  const slash = template.lastIndexOf('/') + 1
  const name = template.slice(slash)
  const room = longestName - (name.length - place.length)
  return template.slice(0, slash) + name.replace(place, () => nameForSqs(queue, room))
}

/** What the names of all SQS queues of a template begin with. */
export function namesBegin(template: string): string {
  const name = template.slice(template.lastIndexOf('/') + 1)
  return name.slice(0, name.indexOf(place))
}

/** True for the URLs that a template can make; others may share their beginning. */
export function isOfTemplate(template: string, url: string): boolean {
  const [before = '', after = ''] = template.slice(template.lastIndexOf('/') + 1).split(place)
  const name = url.slice(url.lastIndexOf('/') + 1)
  return name.length > before.length + after.length && name.startsWith(before) && name.endsWith(after)
}

function nameForSqs(queue: string, room: number): string {
  if (/^[A-Za-z0-9_-]+$/.test(queue) && queue.length <= room) return queue
  const hash = createHash('sha256').update(queue).digest('hex').slice(0, hashDigits)
  const readable = queue.replace(/[^A-Za-z0-9_-]/g, '-').slice(0, Math.max(0, room - hashDigits - 1))
  return `${readable}-${hash}`.slice(-Math.max(hashDigits, room))
}
