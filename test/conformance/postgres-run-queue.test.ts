// The run queue on Postgres, held to the suite that every run queue passes.
import { describeRunQueue } from './run-queue.ts'

describeRunQueue('Postgres', (fixture) => fixture.queue)
