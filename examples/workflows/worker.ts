/**
 * A worker for the workflows of this folder. The token is that of a key with the scope `worker`:
 *
 *     BELFRY_TOKEN=bfy_… node worker.ts [folder with the data of diamond.yaml]
 */
import { createWorker } from 'belfry'
import { workflowJobs } from './jobs.ts'

const worker = createWorker({
  jobs: workflowJobs(process.argv[2] ?? '.'),
  url: process.env['BELFRY_URL'] ?? 'http://127.0.0.1:4680',
  token: process.env['BELFRY_TOKEN'] ?? '',
})
await worker.start()
