import { expect, test } from 'vitest'
import { runExample } from './process.js'

const examples: Readonly<Record<string, readonly string[]>> = {
  quickstart: ['state: pending', 'sent: <welcome-for-ada@example.com>', 'state: completed'],
  retries: [
    '  a-flaky-network: attempt 2 failed: connection reset',
    'a-flaky-network: price 103',
    'a-busy-server: price 102',
    'job a-wrong-address (fetch-price) died at attempt 1: 404: no such product',
    'job a-buggy-handler (fetch-price) died at attempt 1: price is not a function',
    '  1 x 404: no such product, such as a-wrong-address',
    '  a-wrong-address: price 101',
    '  6 completed, 1 dead: the bug is still there',
  ],
  lanes: [
    '8:4:2:1  C H C D C H C L C H C D C H C',
    '1:1:1:1  C H D L C H D L C H D L C H D',
    'strict   C C C C C C C C C C C C C C C',
    'urgent   done',
    'meanwhile 3 slow jobs run and 17 wait',
  ],
  'scheduling-later': [
    'invoice-12: duplicate true',
    'the order: cancelled',
    'parcel 7 has arrived: look 4, attempt 1',
    'the domain: scheduled, due in 365 days',
    '3 completed, 1 cancelled, 2 still to come',
  ],
  'nightly-report': [
    'next: 2030-03-09T07:30:00.000Z, 2030-03-10T07:00:00.000Z',
    'sales: 2030-03-09 02:30 in New York, 07:30 UTC',
    'sales: 2030-03-10 03:00 in New York, 07:00 UTC',
    'sales: 2030-03-11 02:30 in New York, 06:30 UTC',
    'nightly-report: 2 nights without a report',
    'sales: 2030-03-14 02:30 in New York, 06:30 UTC',
    'sales: 2030-03-22 02:30 in New York, 06:30 UTC',
    '5 fired, the last 2030-03-22T06:30:00.000Z, the next 2030-03-23T06:30:00.000Z',
  ],
  progress: [
    'completed #################### 100 of 100',
    'result: { imported: 98, skipped: 2 }',
    'log: warn: row 40 has no price',
    'log: warn: row 80 has no price',
  ],
  'transactional-enqueue': [
    'after a commit: 1 orders, 1 jobs',
    'refused: CHECK constraint failed: paid >= 0',
    'after a rollback: 1 orders, 1 jobs',
    'receipt for order 1',
  ],
  'transactional-completion': [
    'the process stumbles half-way: ann 100 bob 0 cid 0',
    'bob has 30: ann 70 bob 30 cid 0',
    'CHECK constraint failed: balance >= 0',
    'nothing has changed: ann 70 bob 30 cid 0',
    'told bob',
  ],
  'idempotent-payment': [
    'click-1: the answer was lost, tried again',
    'click-1: charged',
    'click-2: done before',
    'retry-of-click-1: receipt 1 over 20',
    '2 calls, 1 charge',
    'the same refund: true 20',
    'export: begun and for others: busy',
    "export: { status: 'done', result: 'export.csv' }",
  ],
  'resize-in-threads': [
    'hill: 1600 x 1200 became 200 x 150, brightness 127',
    'job broken (resize) died at attempt 1: the job ran longer than its timeout of 1000 ms',
    '6 completed, 1 dead',
  ],
  'third-party-api': [
    'acme waits for 300 ms',
    '250 charged, 0 failed, no attempt lost to 2 answers of 429',
    'never more than 100 starts a second: true; a few seconds',
    'a report may start; two more at once: true, another: false',
  ],
  'fair-tenants': [
    'waiting: 5000 noisy, 30 gold, 10 small',
    'ran: 5 noisy, 20 gold, 0 small',
    'waiting: 15 noisy, 0 gold, 20 small',
  ],
  overload: [
    'low: 50 of 60 taken, 10 shed',
    'default: 25 of 60 taken, 35 shed',
    'high: 15 of 60 taken, 45 shed',
    'critical: 10 of 10 taken',
    '100 done, 90 shed',
    '3 of 8 put off for an hour',
    "429, Retry-After: 1: 5 jobs wait in 'mail'",
  ],
  'search-index': [
    "saved 's': inserted",
    "saved 'search': replaced",
    'indexed so far: 0',
    'after two quiet seconds: doc-1: search',
    'never a pause: doc-2: draft 9,doc-2: draft 19',
    'throttle: inserted, duplicate; the same job stands: true',
  ],
  'local-queue': [
    'urgent: product 46: 146',
    '45 rows written, although the second write failed',
    'never more than 8 held, a rest when full: true, within the rate: true',
    'shown 1, 9, 10; dropped 7',
  ],
  batches: [
    'one transaction for 50, attempt 1',
    'one transaction for 21, attempt 1',
    'one transaction for 1, attempt 2',
    'reading 120 is row 120',
    'job broken (store-reading) died at attempt 2: CHECK constraint failed: celsius >= -273.15',
    '120 completed, 1 dead',
    '120 rows',
  ],
  'chunked-export': [
    'blocked, behind 10 chunks',
    'export-chunk: attempt 1: the replica is gone',
    'customers.csv: 950 lines, 12230 bytes from 10 chunks',
  ],
  'order-chain': [
    "job click-1 (confirm) died at attempt 1: child click-1.0000001 ('print-invoice') died: the printer is jammed; retry the child, and this job waits for it again",
    'confirm dead after print-invoice dead after place-order completed',
    'told ann@example.com: I-A-1 over 60',
    'confirm completed after print-invoice completed after place-order completed',
  ],
  'import-batch': [
    'clean: all imported',
    'clean: done',
    'clean: 4 jobs, 0 left',
    'dirty: something is wrong, the rest goes on',
    'dirty: done',
    'dirty: 5 jobs, 0 left',
  ],
  approval: [
    '2030-01-01T09:00 trip: blocked, 0 running',
    '2030-01-03T09:00 the manager is asked for 120',
    '2030-01-03T10:00 the answer woke 1 job',
    'R-trip: 120 paid, told by ann',
    'R-lunch: nobody answered',
    '  2030-01-03 wait:expense:lunch',
    'attempts: 1',
    'in a moment: true',
  ],
  'trip-booking': [
    '+flight +hotel +car | completed: confirmed to ann',
    "?flight | cancelled: job without-flight was cancelled: step 'flight' of the saga failed and what was done was undone: no flight left",
    "+flight ?hotel -flight | cancelled: job without-hotel was cancelled: step 'hotel' of the saga failed and what was done was undone: no hotel left",
    "+flight +hotel ?car -hotel -flight | cancelled: job without-car was cancelled: step 'car' of the saga failed and what was done was undone: no car left",
    '+flight +hotel ?car | blocked',
    '+flight +hotel ?car -hotel -flight | cancelled',
  ],
  choreography: ['order-1: reserved', 'order-1: paid 25', 'order-2: out of stock', 'order-2: sold out'],
  testing: ['a week and ten minutes passed in a moment'],
  shutdown: [
    'SIGTERM: 2 jobs are running',
    'stopped: 1 completed, 2 pending, 0 running',
    '  3000 ms of work begins, attempt 1',
    '3 of 3 completed, 0 failed, 0 crashed',
  ],
}

test.for(Object.entries(examples))('%s runs to its end', async ([name, lines]) => {
  const { code, signal, stdout, stderr } = await runExample(name)
  expect({ code, signal, stderr }).toEqual({ code: 0, signal: null, stderr: '' })
  const printed = stdout.split('\n')
  for (const line of lines) expect(printed).toContain(line)
})
