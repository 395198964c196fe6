package store

import (
	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the store's counters.
type metrics struct {
	registry    prometheus.Registerer
	corrupt     prometheus.Counter
	failures    prometheus.Counter
	readErrors  prometheus.Counter
	writeErrors prometheus.Counter
	compacted   prometheus.Counter
}

func newMetrics(registry prometheus.Registerer) *metrics {
	m := &metrics{registry: registry}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "penstock_store_" + name, Help: help})
		if registry != nil {
			registry.MustRegister(c)
		}
		return c
	}
	m.corrupt = counter("corrupt_total", "Times that stored bytes were found to differ from the ones written.")
	m.failures = counter("disk_failures_total", "Times that a disk was taken out of use.")
	m.readErrors = counter("read_errors_total", "Reads that failed for another reason than damage.")
	m.writeErrors = counter("write_errors_total", "Writes and syncs that a disk refused, a full disk excepted.")
	m.compacted = counter("compacted_packs_total", "Packs that were emptied and removed.")
	return m
}

// watch adds what is asked of the disks when metrics are collected.
func (m *metrics) watch(s *Store) {
	if m.registry == nil {
		return
	}
	gauge := func(d *drive, name, help string, value func(DiskStatus) float64) {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "penstock_disk_" + name, Help: help, ConstLabels: prometheus.Labels{"disk": d.name},
		}, func() float64 { return value(d.status()) }))
	}
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "penstock_disks_absent", Help: "Disks that belong here but were not given.",
	}, func() float64 { return float64(len(s.absent)) }))
	for _, d := range s.drives {
		gauge(d, "used_bytes", "Bytes that packs and blobs take.", func(st DiskStatus) float64 { return float64(st.Used) })
		gauge(d, "live_bytes", "Bytes of packs and blobs that are needed.", func(st DiskStatus) float64 { return float64(st.Live) })
		gauge(d, "free_bytes", "Bytes free on the file system.", func(st DiskStatus) float64 { return float64(st.Free) })
		gauge(d, "up", "1 if the disk is in use.", func(st DiskStatus) float64 {
			if st.State == "failed" || st.State == "rebuilding" {
				return 0
			}
			return 1
		})
	}
}
