// Announcements by SQS as one Belfry process has them, for tests.
import { createSqsAnnouncements } from '../../packages/server/src/adapters/sqs/sqs-announcements.ts'
import { createSqsLink, type SqsLink } from '../../packages/server/src/adapters/sqs/sqs-link.ts'
import type { Announcements } from '../../packages/server/src/ports/announcements.ts'
import { realClock, realRandom } from './real-clock.ts'
import { type RecordedEvents, recordEvents, testIds } from './running.ts'

export const sqsSecret = 'the-secret-of-the-tests'

export type SqsCarrier = {
  readonly link: SqsLink
  readonly announcements: Announcements
  readonly events: RecordedEvents
}

/** Of the queue with this URL, which may hold `{queue}`; `link.close` ends it. */
export async function openSqsCarrier(queueUrl: string): Promise<SqsCarrier> {
  const events = recordEvents()
  const credentials = { accessKeyId: 'AKIAEXAMPLE', secretAccessKey: sqsSecret, sessionToken: undefined }
  const settings = { queueUrl, endpoint: new URL(queueUrl).origin, region: 'us-east-1', credentials }
  const parts = { clock: realClock, random: realRandom, events }
  const link = createSqsLink({ ...parts, settings })
  await link.start()
  const announcements = createSqsAnnouncements({ ...parts, ids: testIds, link, template: queueUrl })
  return { link, announcements, events }
}
