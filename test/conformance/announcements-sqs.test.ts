// Announcements by SQS, held to the suite that every carrier passes: by one standard queue, by one FIFO
// queue, and by a queue for each queue.
import { urlOfQueue } from '../../packages/server/src/adapters/sqs/sqs-queues.ts'
import { openSqsCarrier, type SqsCarrier } from '../support/sqs-carrier.ts'
import { startSqsServer } from '../support/sqs-server.ts'
import { describeAnnouncements } from './announcements.ts'

const namesOfTheSuite = ['mail', 'many', 'shared', 'left', 'settled', 'mine', 'theirs', 'garbage', 'outage']
const namesOfEveryKind = ['stopped', 'a.b', 'a_b', 'a-b', 'A.b', `x${'y'.repeat(127)}`]
const nameOf = (url: string): string => url.slice(url.lastIndexOf('/') + 1)

for (const [words, name] of [
  ['a standard queue', 'belfry'],
  ['a FIFO queue', 'belfry.fifo'],
  ['a queue for each queue', 'belfry-{queue}'],
] as const) {
  describeAnnouncements(`SQS, ${words}`, async () => {
    const server = await startSqsServer()
    const carriers: SqsCarrier[] = []
    const template = server.urlOf(name)
    const urls = [...namesOfTheSuite, ...namesOfEveryKind].map((queue) => urlOfQueue(template, queue))
    for (const made of new Set(urls)) server.createQueue(nameOf(made))
    return {
      async open() {
        const carrier = await openSqsCarrier(template)
        carriers.push(carrier)
        return carrier.announcements
      },
      async write(queue, text) {
        const url = urlOfQueue(template, queue)
        server.send(nameOf(url), text, url.endsWith('.fifo') ? 'by hand' : undefined)
      },
      away: async () => server.fault('cut'),
      back: async () => server.fault('none'),
      async drop() {
        await Promise.all(carriers.map(({ link }) => link.close()))
        await server.close()
      },
    }
  })
}
