import { describeRunQueue } from './run-queue.ts'

describeRunQueue('Postgres', (fixture) => fixture.queue)
