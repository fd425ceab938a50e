/**
 * Runs the nightly report inside this process: `DATABASE_URL=postgres://… node --conditions=source
 * examples/nightly-report/main.ts FOLDER`. Ctrl-C stops it in good order.
 */
import { BelfryError, createBelfry } from 'belfry'
import { nightlyReport } from './jobs.ts'

const report = nightlyReport(process.argv[2] ?? '.')
const belfry = createBelfry({ databaseUrl: process.env['DATABASE_URL'] ?? '', jobs: [report] })
await belfry.start()
process.once('SIGINT', () => void belfry.stop())
try {
  await belfry.client.schedules.create({
    name: 'nightly-report',
    cron: '30 2 * * *',
    zone: 'Europe/Berlin',
    job: report.name,
  })
} catch (error) {
  // it is there from the last time
  if (!(error instanceof BelfryError) || error.code !== 'name_taken') throw error
}
